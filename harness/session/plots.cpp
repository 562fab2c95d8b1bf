#include "harness/session/plots.h"

#include <fmt/format.h>

#include <cstdlib>

#include "harness/base/log.h"
#include "harness/base/program_files.h"
#include "harness/session/child_program.h"

namespace gradsync::session {
namespace {

std::string python() {
  const char* chosen = std::getenv("GRADSYNC_PYTHON");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  return *GRADSYNC_PYTHON != '\0' ? GRADSYNC_PYTHON : "python3";
}

// Looks without importing, which would take a second.
bool has_matplotlib() {
  const char* look = "import importlib.util as u, sys; sys.exit(u.find_spec('matplotlib') is None)";
  return run_program({python(), "-c", look}, Output::Nowhere) == 0;
}

}  // namespace

void make_plots(const std::string& script, const std::string& argument) {
  const std::string remedy = fmt::format(
      "to draw them: harness/setup, then build/deps/venv/bin/python plot/{} {}", script, argument);
  if (!has_matplotlib()) {
    log::warn(fmt::format("no plots: {} is no Python with matplotlib; {}", python(), remedy));
    return;
  }
  const int status =
      run_program({python(), data_file("plot/" + script), argument}, Output::AllToStderr);
  if (status != 0) {
    log::warn(fmt::format("no plots ({} exited with {}); {}", python(), status, remedy));
  }
}

}  // namespace gradsync::session
