#include "harness/session/child_program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "harness/base/child_process.h"
#include "harness/base/clock.h"
#include "harness/session/interrupt.h"

namespace gradsync::session {
namespace {

constexpr double kPollS = 0.02;

// Returns what waitpid says of the program's end.
int wait_for(pid_t pid) {
  bool told = false;
  int status = 0;
  for (;;) {
    const pid_t ended = waitpid(pid, &status, WNOHANG);
    if (ended == pid) return status;
    if (ended < 0) return -1;
    if (interrupt_flag().load() && !told) {
      ::kill(pid, SIGINT);
      told = true;
    }
    steady_clock().sleep_until_ns(steady_clock().now_ns() + nanoseconds(kPollS));
  }
}

}  // namespace

int run_program(const std::vector<std::string>& command, Output output) {
  const std::vector<char*> arguments = pointers_to(command);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (output == Output::Nowhere) {
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  }
  if (output == Output::AllToStderr) {
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  } else {
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  }
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return -1;
  const int status = wait_for(pid);
  return status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace gradsync::session
