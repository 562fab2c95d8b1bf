// A watched training job that takes a number of optimizer steps on request, and waits in between
// without using the CPU.
//
//   HeldJob job({.command = {"torchrun", "train.py"}, .environment = watching(...),
//                .folder = "/tmp/events", .log = "train.log"});
//   const TakenBlock block = job.run(20);      // the job loads, takes 20 steps, and waits
//
// It runs in a process group of its own, with nothing to read; what it prints is appended to a log.
// A job that ends, dies or falls silent is an answer, too: the failure of what was asked, and of
// everything after.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/watch/hold/turns.h"
#include "harness/watch/inject/environment.h"

namespace gradsync::watch {

struct JobStart {
  std::vector<std::string> command;  // looked up in PATH
  EnvironmentChanges environment;    // watching()'s, and what else the job needs
  std::string folder;                // the one named there, empty
  std::string log;                   // file to which standard output and errors are appended
  int processes = 0;  // that take steps; 0: as many as its largest process group has ranks
};

// How long a job may be silent.
struct JobDeadlines {
  double step_s = 1800;  // no process ends an optimizer step: it loads, or its steps are long
  double grace_s = 5;    // between SIGTERM and SIGKILL
};

// The steps that one process took in a block, in order.
struct TakenSteps {
  int rank = -1;  // -1: it has none
  std::int64_t pid = 0;
  std::vector<double> step_s;  // from the end of the step before, or from its release; a job's
                               // first step has no beginning and is left out
  std::map<std::string, std::vector<double>> phase_s;  // of the same steps; empty: not known
};

struct TakenBlock {
  std::vector<TakenSteps> processes;  // by rank; those of a job that failed are left out
  std::string failure;                // "made 4 of 9 steps, then ...", a sentence; empty: it did
  bool ended_well = false;            // it failed because the job was over, with status 0
};

// How a job ended.
struct JobEnd {
  std::int64_t steps = 0;  // that every process ended
  std::string how;         // "exited with status 1: ValueError: ... (train.log)"
  bool well = false;       // with status 0
};

class HeldJob {
 public:
  // Starts the command. `poll` is called at least every tenth of a second by whatever blocks; what
  // it throws ends that.
  // Errors: ConfigError where there is no such program; EnvironmentError where it or its turns
  // cannot be started.
  explicit HeldJob(const JobStart& start, const JobDeadlines& deadlines = {},
                   std::function<void()> poll = {});
  // Ends the job and all that it started.
  ~HeldJob();
  HeldJob(const HeldJob&) = delete;
  HeldJob& operator=(const HeldJob&) = delete;

  // Lets every process of the job take so many more optimizer steps, and waits until all have.
  // `steps`: 1 to kKeptSteps.
  TakenBlock run(std::int64_t steps);

  // Lets the job run to its end, and waits for it. It is not held as long as we live: were we
  // killed, it would end itself within a hundred steps.
  JobEnd finish();

  // Steps that every process ended.
  std::int64_t ended() const;
  bool is_running() const { return pid_ > 0; }
  int world_size() const { return world_size_; }  // 0: no step was taken yet

 private:
  bool all_have_arrived();
  bool takes_too_long();
  void end_because_silent();
  TakenBlock taken(std::int64_t first, std::int64_t steps) const;
  TakenBlock failed(const std::string& how) const;
  bool has_ended();
  void end();

  std::string program_;
  std::string folder_;
  std::string log_;
  std::int64_t log_start_ = 0;  // where this job's output begins
  JobDeadlines deadlines_;
  int processes_;  // 0: as many as there are ranks
  std::function<void()> poll_;
  Turns turns_;
  pid_t pid_ = -1;
  std::int64_t allowed_ = 0;
  int world_size_ = 0;
  std::string death_;  // how it ended; empty: it lives
  bool ended_well_ = false;
  std::int64_t heard_steps_ = 0;
  std::int64_t heard_ns_ = 0;
};

}  // namespace gradsync::watch
