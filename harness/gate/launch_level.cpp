#include "harness/gate/launch_level.h"

#include <fmt/format.h>

#include <algorithm>

namespace gradsync::gate {

double level_for(double alpha, std::size_t rows) {
  return 1 - alpha / static_cast<double>(std::max<std::size_t>(1, rows));
}

std::string level_text(double level) {
  return fmt::format("{:.4g} %", 100 * level);
}

}  // namespace gradsync::gate
