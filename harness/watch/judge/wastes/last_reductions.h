// The one necessary synchronization of a step: its last one, with the backward of its gradients.
//
// Under DDP that is what its last synchronizing backward reduces: of one model, or of the many that
// the job wraps one by one. Without a wrapper that reduces, it is what the job itself all-reduces
// from its last backward on until its optimizer steps. Sharded models are left out: they reduce by
// themselves as they can.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/watch/judge/steps/counts.h"
#include "harness/watch/judge/steps/reductions.h"
#include "harness/watch/judge/steps/steps.h"
#include "harness/watch/read/event.h"

namespace gradsync::watch {

struct LastReductions {
  const Event* backward = nullptr;
  EventPointers reductions;     // of gradients, by time; one or more, all of known size
  const Event* wrap = nullptr;  // of the model under DDP; null: they are reduced by hand
  std::size_t models = 1;       // that this backward is of, wrapped one by one
  std::int64_t bytes = 0;       // of all of them
  int gradients = 0;            // that this backward made; 0: not known
  std::optional<std::int64_t> backward_on_gpu_ns;  // computing; absent: not there, or not known
};

// Returns it; nothing where it is not certain which collectives these are, or there are none.
std::optional<LastReductions> last_reductions(const RankEvents& rank, const Steps& steps,
                                              const StepCounts& counts);

// Returns the number that an option had when the model was wrapped, "bucket_bytes_cap" or
// "largest_parameter_bytes"; nothing where it is not recorded.
std::optional<std::int64_t> option_of(const Event& wrap, const std::string& name);

// Returns whether all reductions begin when nothing of the backward is left to compute.
bool begin_behind_backward(const LastReductions& last);

// Returns whether there is one reduction for each gradient.
bool are_of_one_tensor_each(const LastReductions& last);

// Returns how long the backward computes; what it waits for at its end is none of that.
std::int64_t backward_ns(const LastReductions& last);

// Returns how long each took, in their order: from when it began or the one before it was complete,
// whichever was later. Those by hand behind backward count from when the one before was complete:
// their price includes what the host does in between, and how long a rank waits there for another.
// Empty where it is not known when they ended.
std::vector<std::int64_t> wires_ns(const LastReductions& last);

// Returns from when the last of them began to when all were complete.
std::int64_t exposed_ns(const LastReductions& last);

}  // namespace gradsync::watch
