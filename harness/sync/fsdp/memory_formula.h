// What a step of FSDP holds, declared beforehand: a pure function from sizes, options and policy.
//
// It is a recurrence over the units, in the order in which the wrapper visits them, and not one
// expression: which of a gathered unit, a gradient in flight and a kept gradient exist together
// depends on where in the step one looks. Every term is one allocation of FlatUnit (flat_unit.cpp):
//
//   resident      parameters / ranks x stored, and what the optimizer keeps of them
//   gathered      one unit, two with prefetch; all of them without reshard_after_forward
//   gradient      whole where no_sync kept it, else the unit's own and the one being reduced
//   reduced       gradients / ranks
//   communication casts for the wire, and gloo's copy of what it reduces
//
// Activations are the model's affair and not in it.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/measure/memory_category.h"

namespace gradsync::sync {

struct FsdpMemory {
  std::int64_t root_elements = 0;           // parameters in no unit; 0: none
  bool root_ends_model = true;              // some of them after the last unit: a head, whose
                                            // gradient comes first and waits for the others
  std::vector<std::int64_t> unit_elements;  // in the order of forward; 0: a unit without any
  int ranks = 1;                            // that share one copy of the parameters
  // Bytes per element: as stored, as gathered, of a gradient as it accumulates, on the wire.
  int stored_bytes = 4;
  int param_bytes = 4;
  int gradient_bytes = 4;
  int reduce_bytes = 4;
  bool reshard_after_forward = true;
  bool reshard_after_backward = true;
  bool prefetch = true;
  bool backend_copies_reductions = true;  // gloo does; NCCL and the fake backend do not
};

// Returns the most of each category that one rank holds at any time of a step whose micro-batch i
// reduces gradients where syncs[i], with an optimizer of AdamW's two moments. Categories that the
// wrapper does not fill (activation, other) are 0. Bytes; sums of them are no peak, since they need
// not be held together.
measure::CategoryBytes highest_by_category(const FsdpMemory& memory,
                                           const std::vector<bool>& syncs);

}  // namespace gradsync::sync
