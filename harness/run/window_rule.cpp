#include "harness/run/window_rule.h"

namespace gradsync::run {

std::vector<int> window_micro_batches(int steps, int accumulation_steps, bool as_published,
                                      bool short_window_last) {
  std::vector<int> windows(static_cast<std::size_t>(steps), accumulation_steps);
  if (!as_published || windows.empty() || accumulation_steps < 2) return windows;
  if (short_window_last) {
    windows.back() = accumulation_steps - 1;
  } else {
    windows.front() = 1;
  }
  return windows;
}

}  // namespace gradsync::run
