#include "harness/base/errors.h"
#include "tests/harness/predict/second_opinion/simulated.h"

namespace gradsync::predict::second_opinion {

bool has_simgrid() {
  return false;
}

std::vector<double> simulated_s(const std::vector<Case>&) {
  throw ConfigError(
      "this was built where SimGrid is not: install what Debian calls libsimgrid-dev");
}

}  // namespace gradsync::predict::second_opinion
