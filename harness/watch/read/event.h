// What the watcher saw of a training job, in one rank's own order of time.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/known.h"
#include "harness/watch/inject/preload/event_kind.h"
#include "harness/watch/inject/preload/wrappers.h"
#include "harness/watch/read/gpu_work.h"
#include "harness/watch/read/group.h"
#include "harness/watch/read/tracked_parameters.h"

namespace gradsync::watch {

inline constexpr const char* kByHand = "by_hand";
inline constexpr const char* kRead = "read";
inline constexpr const char* kParameters = "parameters";
inline constexpr const char* kUnclear = "unclear";

inline constexpr const char* kHostRead = "read ";  // begins names of Calls, as "read item"

// Flags, of a Sync.
inline constexpr const char* kGradientFlag = "set_requires_gradient_sync";
inline constexpr const char* kAllReduceFlag = "set_requires_all_reduce";

// A collective on the GPU of its rank: from when its kernel began to run until that ended.
struct CollectiveOnGpu {
  GpuSpan ran;
  // The part of it in which nothing computed there. Where several collectives ran at once, the one
  // that began first has that time.
  std::int64_t exposed_ns = 0;
  std::int64_t waited_ns = 0;  // the part of that for which its step waited
};

// Times are of CLOCK_MONOTONIC, which Python reads as time.monotonic_ns().
struct Event {
  EventKind kind = EventKind::Collective;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;     // of a collective: when it was complete; start_ns where not known
  std::int64_t issued_ns = 0;  // of a collective: when its call returned; 0: not known
  std::string name;
  std::int64_t bytes = -1;  // of a collective: its tensor, once per rank; of a Wrap: all gradients
                            // of the model; of a Backward: the gradients that it reached; of an
                            // OptimizerStep: the most that tensors held until it ended, as in
                            // TensorPeak; -1: not known
  std::int64_t added_bytes = 0;  // of a Backward: of these, added to gradients that were there
  std::int64_t object = 0;       // tells models, optimizers and process groups apart; 0: not known
  std::int64_t thread = 0;
  std::string file;  // where the job called it; empty: not known
  int line = 0;
  // The innermost function of a library between the job and torch: its file, below where libraries
  // are installed. Empty: the job called by itself.
  std::string inside;
  int inside_line = 0;
  std::string detail;
  GroupRole role = GroupRole::Unknown;  // of a collective: what its group does
  bool has_replicas = false;  // of a collective among shards: its wrapper has replicas of them
  bool is_apart = false;      // of a collective: in a group of one of the several ranks of the job
  bool is_captured = false;   // of a collective: into a CUDA graph, it did not run by itself
  std::optional<CollectiveOnGpu> on_gpu;  // of a collective; absent: not there, or not known
};

// torch.autograd.grad and its like, which are nothing but a part of what surrounds them.
bool accumulates_nothing(const Event& event);

// Whether it is a collective that ran. One that a CUDA graph captured says how its step
// communicates, and no more: each launch of the graph is an event of its own.
bool has_communicated(const Event& event);

// Returns when its rank came to a collective, and when it was complete there: on its GPU where it
// ran on one.
std::int64_t begun_ns(const Event& collective);
std::int64_t complete_ns(const Event& collective);

// Sorts by start_ns; of events that begin together the order stays.
void sort_by_time(std::vector<Event>& events);

inline constexpr const char* kNotCounted = "its tensors were not counted from the first one on";

// The most that the tensors of a process held at once: on the CPU those that its training's thread
// made, with the bytes that were asked for; where it uses a GPU those on that GPU instead, as torch
// has counted them.
struct TensorPeak {
  Known<std::int64_t> bytes = Unknown{kNotCounted};
  bool is_on_gpu = false;
  // The most that torch's allocator took from that GPU for them: what an out-of-memory error is
  // about. Unset: on the CPU, or not told.
  std::optional<std::int64_t> reserved_bytes = std::nullopt;
};

// What an operator of torch's did between the ends of two optimizer steps
// (preload/operator_work.h).
struct Work {
  std::int64_t written_ns = 0;  // within the event of the second one
  std::string name;
  int stack = 0;  // that called it, a key of RankEvents::stacks; 0: not known
  std::int64_t times = 0;
  std::int64_t bytes = 0;  // of its outputs
  std::int64_t flops = 0;
};

// A line of the job's own files.
struct JobLine {
  std::string file;
  int line = 0;
  std::string text;  // without the space around it
};

// What a rank holds of the gradients of one sharded model between two micro-batches.
struct HeldGradients {
  std::int64_t shard_bytes = 0;  // where all were reduced
  // Where shards were added up, and replicas not yet; -1: their wrapper has no such option.
  std::int64_t reduced_bytes = 0;
  std::int64_t whole_bytes = 0;  // where nothing was reduced yet
  // Not of gradients: of parameters that stay gathered where nothing was reduced yet.
  std::int64_t gathered_bytes = 0;
};

// The record of one process, or of one of the files that it left.
struct RankEvents {
  int rank = -1;  // -1: it never had a process group
  int world_size = 0;
  std::int64_t pid = 0;
  std::vector<Event> events;        // by start_ns
  std::vector<std::string> faults;  // what the watcher could not see, in sentences
  std::vector<Group> groups;
  std::map<std::int64_t, HeldGradients> held;  // by model
  std::vector<Work> work;                      // empty: it was not counted
  std::map<int, std::vector<JobLine>> stacks;  // that work comes from, the innermost line first
  TrackedOptimizers optimizers;
  std::vector<Exchange> exchanges;  // by hand, in the first steps
  // Why a process without a group may be one of several, "OMPI_COMM_WORLD_SIZE=4"; else "".
  std::string peers;
  // It was read from a trace of torch.profiler's, not recorded by the watcher. No verdict then
  // rests on what a trace does not hold.
  bool is_traced = false;
  bool models_are_by_size = false;      // in such a file: several may pass for one
  bool runs_ahead = false;              // in such a file: forwards do, each backward may be of any
  bool lacks_ranges = false;            // in such a file: some of what ran has no times
  bool graphs_may_communicate = false;  // in such a file: CUDA graphs, past what it records
  bool is_imported() const { return is_traced; }
  std::string gpus_of_paper;  // that it had, "8xh100"; "": the machine's own devices
  TensorPeak peak;
  std::optional<GpuWork> gpu;       // absent: it has none, or none was recorded
  std::optional<GpuSpan> profiled;  // when torch.profiler recorded (foreign/profiled_steps.h)
  int host = 0;                     // of a job on several hosts, by their lowest ranks
  // How well its times are known on the clock of host 0; absent: not at all.
  std::optional<std::int64_t> clock_error_ns = 0;
  // From then on some events were left out because there were too many.
  std::int64_t complete_until_ns = std::numeric_limits<std::int64_t>::max();
};

// Moves all times of a process by so much.
void shift(RankEvents& process, std::int64_t by_ns);

// Returns the processes that count, by rank: those that neither had a rank nor ran anything are
// left out, unless somebody chose their traces, and of several with one rank (a restarted job) the
// one with most events counts.
std::vector<const RankEvents*> training_processes(const std::vector<RankEvents>& processes);

// Returns the wrapping of a model, by its number; null where it was not seen.
const Event* wrap_of(const RankEvents& rank, std::int64_t model);

// Returns the group of this name; null where there is none.
const Group* group_named(const RankEvents& rank, const std::string& name);

// "train.py line 11": the place without its folders; empty where it is not known.
std::string place_text(const std::string& file, int line);

}  // namespace gradsync::watch
