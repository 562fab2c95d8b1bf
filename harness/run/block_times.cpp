#include "harness/run/block_times.h"

#include <fmt/format.h>

#include <algorithm>

namespace gradsync::run {
namespace {

// A device has a clock of its own, whose times are brought to the host's. Beyond these, of the
// block or in seconds, that went wrong.
constexpr double kClocksApart = 1e-3;
constexpr double kClocksApartS = 10e-3;

}  // namespace

std::string first_mistiming(const std::vector<measure::RecordedStep>& steps, std::size_t count,
                            double block_s) {
  if (steps.size() != count) return fmt::format("{} steps have times, of {}", steps.size(), count);
  double sum_s = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    sum_s += steps[i].total_s();
    if (i > 0 && steps[i].start_ns != steps[i - 1].end_ns) {
      return fmt::format("step {} begins {} ns after the end of the one before it", i + 1,
                         steps[i].start_ns - steps[i - 1].end_ns);
    }
  }
  if (sum_s > block_s + std::max(kClocksApart * block_s, kClocksApartS)) {
    return fmt::format("steps sum to {:.6f} s, the block took {:.6f} s", sum_s, block_s);
  }
  return "";
}

}  // namespace gradsync::run
