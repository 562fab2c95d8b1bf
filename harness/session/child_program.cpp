#include "harness/session/child_program.h"

#include <fcntl.h>
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
  Spawn program(command);
  if (output == Output::Nowhere) program.open(STDERR_FILENO, "/dev/null", O_WRONLY);
  if (output == Output::AllToStderr) {
    program.duplicate(STDERR_FILENO, STDOUT_FILENO);
  } else {
    program.open(STDOUT_FILENO, "/dev/null", O_WRONLY);
  }
  pid_t pid = 0;
  if (program.start(pid) != 0) return -1;
  const int status = wait_for(pid);
  return status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace gradsync::session
