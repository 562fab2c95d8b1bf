// When is a sync due? This one pure function, for every strategy and for Accelerate's API.
#pragma once

#include <cstdint>

namespace gradsync::sync {

// Returns true when the gradients of this micro-batch must be reduced over the ranks: when it
// completes a window of `num_steps`, or is the last one there is.
//   micro_batch  1 for the first micro-batch since the last window that the data's end closed
//   last_of_data the data ends with it, so that a short window is closed (Accelerate's
//                sync_with_dataloader)
// Source: Accelerate's Accelerator._do_sync.
constexpr bool sync_due(std::int64_t micro_batch, std::int64_t num_steps, bool last_of_data) {
  return last_of_data || micro_batch % num_steps == 0;
}

}  // namespace gradsync::sync
