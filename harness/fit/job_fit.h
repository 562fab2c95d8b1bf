// Will a training job fit: runs it, unmodified, for a few optimizer steps on GPUs of paper, and
// says what each rank held at most, where, and of what that consists.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/fit/composition.h"
#include "harness/fit/replay.h"
#include "harness/paper/gpu_models.h"

namespace gradsync::fit {

struct Question {
  std::vector<std::string> command;
  std::string python;  // its interpreter, where the command does not show it
  std::string on;      // "8xh100"
  int world = 0;       // ranks of the whole job, of which the command starts a few; 0: all of them
  int steps = 0;       // optimizer steps
  std::string keep;  // a new or empty folder for what was recorded, and the job's output; "": none
  double step_deadline_s = 0;
  bool tries_settings = true;  // of the allocator, by replays
};

enum class Outcome { Ok, OutOfMemory };

// The upper end of what torch reserves, where blocks that other streams used come back only when
// the GPU is done with them: with the GPU as far behind the host as it can be.
struct Behind {
  Outcome outcome = Outcome::Ok;
  std::int64_t peak_reserved_bytes = 0;
};

// One process's.
struct RankFit {
  int rank = 0;
  Outcome outcome = Outcome::Ok;
  std::string reason;  // of OutOfMemory torch's message, else why it ended early; "": it did not
  std::int64_t peak_allocated_bytes = 0;
  std::int64_t peak_reserved_bytes = 0;
  StepPlace place;     // where the most was allocated
  std::string module;  // "": not known
  std::vector<Part> parts;
  int communicators = 0;               // process groups in which it communicated
  std::optional<Behind> behind;        // unset: it makes no difference, or a note says why
  bool is_out_beside_context = false;  // with the least of what stands beside it (Beside)
};

enum class Fits { Yes, Barely, No };

// Returns whether a rank's memory fits beside a CUDA context and NCCL's buffers. Barely: not if
// these take the most, or if the GPU is far behind the host.
Fits fits_of(const RankFit& rank, const paper::Gpus& gpus);

struct SettingFit {
  std::string_view setting;  // of settings()
  Replayed replayed;
};

struct JobFit {
  paper::Gpus gpus;
  int world = 0;
  std::vector<RankFit> ranks;  // by rank; empty: see `failure`
  int steps = 0;               // that every process ended
  std::string failure;         // why the job ended early, a sentence; "": it did not
  // The stream of the rank that reserved most, or ran out, under other settings.
  int replayed_rank = 0;
  std::string variable;
  // The same without the workspaces that cuDNN asks for; unset: it asked for none.
  std::optional<Replayed> without_workspaces;
  std::vector<SettingFit> settings;  // empty: they were not wanted
  std::vector<std::string> notes;    // what else is to be known, sentences
};

// Runs the job and judges it. `poll` is called at least every tenth of a second; what it throws
// ends the job. Errors: as paper::build_standins, build_libraries and watch::run_whole_job;
// EnvironmentError where the job used no GPU.
JobFit find_fit(const Question& question, const std::function<void()>& poll);

// What nvidia-smi would show beside that, in bytes: an interval of assumptions, and not measured.
struct Beside {
  std::int64_t least = 0, most = 0;
};

// Sources: a CUDA context takes 0.2 to 0.7 GiB (pytorch/pytorch#28113, #107667); NCCL up to 1.6 GiB
// for a communicator (NVIDIA/nccl#864), and at least 32 MiB for one of few channels.
Beside beside_reserved(int communicators);

}  // namespace gradsync::fit
