// What the watcher saw of a training job, in one rank's own order of time.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace gradsync::watch {

enum class EventKind {
  Forward,     // of a wrapped model; `name`: "DistributedDataParallel", "FullyShardedDataParallel",
               // "fully_shard"; `detail`: words, of which "no_grad", "eval" and "no_sync"
               // (the wrapper's flag was off) have a meaning; empty also where nothing is known
  Backward,    // one run of autograd; `detail`: gradients that it accumulated, "0" where it was
               // torch.autograd.grad or its like; empty: not known
  Collective,  // `name`: "all_reduce", "broadcast", "reduce_scatter", "all_gather", ...
  OptimizerStep,  // `name`: "AdamW", ...; `detail`: "skipped" where a gradient scaler left it out
  NoSyncEnter,    // the hook alone sees these two: `file` and `line` of the `with`
  NoSyncLeave,
  Wrap,  // a model was wrapped; `name`: the wrapper, `detail`: its options as "name=value" words
  Sync,  // FSDP2: set_requires_gradient_sync(`detail`: "true" or "false")
  ZeroGrad,  // gradients were cleared; what later micro-batches add starts from nothing; `detail`:
             // kByHand where the job did so, or changed them, by itself and not by zero_grad()
  GradientUse,  // the job needs gradients as they are here: `detail` kRead, it read one, or
                // kParameters, it changed parameters and not by an optimizer
  CommHook,     // DDP was given a hook that reduces in its place, by whatever means
};

inline constexpr const char* kByHand = "by_hand";
inline constexpr const char* kRead = "read";
inline constexpr const char* kParameters = "parameters";

// Times are of CLOCK_MONOTONIC, which Python reads as time.monotonic_ns().
struct Event {
  EventKind kind = EventKind::Collective;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;     // of a collective: when it was complete; start_ns where not known
  std::int64_t issued_ns = 0;  // of a collective: when its call returned; 0: not known
  std::string name;
  std::int64_t bytes = -1;  // of a collective: its tensor, once per rank; of a Wrap: all gradients
                            // of the model; -1: not known
  std::int64_t object = 0;  // tells models, optimizers and process groups apart; 0: not known
  std::int64_t thread = 0;
  std::string file;  // where the job called it; empty: not known
  int line = 0;
  std::string detail;
};

// Sorts by start_ns; of events that begin together the order stays.
void sort_by_time(std::vector<Event>& events);

// What one process says of itself, or one of the files that it left.
struct RankEvents {
  int rank = -1;  // -1: it never had a process group
  int world_size = 0;
  std::int64_t pid = 0;
  std::vector<Event> events;        // by start_ns
  std::vector<std::string> faults;  // what the watcher could not see, in sentences
  // Of a process without a group: why it may be one of several, "OMPI_COMM_WORLD_SIZE=4"; else "".
  std::string peers;
  // Of what began later, events were left out because there were too many.
  std::int64_t complete_until_ns = std::numeric_limits<std::int64_t>::max();
};

}  // namespace gradsync::watch
