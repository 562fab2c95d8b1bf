#include "harness/run/window_rule.h"

#include <fmt/format.h>

#include <utility>

#include "harness/base/errors.h"

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

std::string place_of_backward(int index, const std::vector<int>& warmup,
                              const std::vector<int>& windows) {
  for (const auto& [name, steps] : {std::pair{"warm-up step", &warmup}, {"step", &windows}}) {
    for (std::size_t i = 0; i < steps->size(); ++i) {
      if (index < (*steps)[i]) return fmt::format("{} {}, micro-batch {}", name, i + 1, index + 1);
      index -= (*steps)[i];
    }
  }
  GRADSYNC_CHECK(index, <, 0);
  return "";
}

}  // namespace gradsync::run
