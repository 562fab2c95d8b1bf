#include "benchmarks/plots.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "benchmarks/paths.h"
#include "harness/base/log.h"

namespace gradsync::cli {
namespace {

std::string python() {
  const char* chosen = std::getenv("GRADSYNC_PYTHON");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  return *GRADSYNC_PYTHON != '\0' ? GRADSYNC_PYTHON : "python3";
}

// Runs the program with stdout sent to stderr, or both nowhere; returns its exit status, or -1 when
// it cannot start or is killed.
int run_to_end(const std::vector<std::string>& command, bool silent) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (silent) posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return -1;
  int status = 0;
  if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

// Looks without importing, which would take a second.
bool has_matplotlib() {
  const char* look = "import importlib.util as u, sys; sys.exit(u.find_spec('matplotlib') is None)";
  return run_to_end({python(), "-c", look}, true) == 0;
}

}  // namespace

void make_plots(const std::string& directory) {
  const std::string remedy = fmt::format(
      "to draw them: harness/setup, then build/deps/venv/bin/python plot/plot.py {}", directory);
  if (!has_matplotlib()) {
    log::warn(fmt::format("no plots: {} is no Python with matplotlib; {}", python(), remedy));
    return;
  }
  const int status = run_to_end({python(), source_file("plot/plot.py"), directory}, false);
  if (status != 0) {
    log::warn(fmt::format("no plots ({} exited with {}); {}", python(), status, remedy));
  }
}

}  // namespace gradsync::cli
