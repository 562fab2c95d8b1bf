#include "harness/launch/program_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "harness/base/child_process.h"
#include "harness/base/errors.h"
#include "harness/launch/unique_fd.h"

namespace gradsync::launch {
namespace {

[[noreturn]] void throw_no_program(const std::string& program, int error) {
  throw EnvironmentError(fmt::format("{} cannot be started: {}", program, std::strerror(error)),
                         "check that it is installed, and the limits of processes and open files");
}

}  // namespace

ProgramOutput output_of(const std::vector<std::string>& command, double timeout_s, Errors errors) {
  // In memory: a pipe could fill up.
  const UniqueFd output(::memfd_create("gradsync_program_output", MFD_CLOEXEC));
  if (!output) throw_no_program(command.at(0), errno);
  Spawn program(command);
  program.open(STDIN_FILENO, "/dev/null", O_RDONLY).duplicate(output.get(), STDOUT_FILENO);
  if (errors == Errors::Kept) program.duplicate(output.get(), STDERR_FILENO);
  pid_t pid = 0;
  if (const int error = program.start(pid); error != 0) throw_no_program(command.at(0), error);
  if (const auto status = wait_for_end(pid, timeout_s)) {
    return {shell_status(*status), content_of(output.get())};
  }
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  throw EnvironmentError(fmt::format("{} did not end within {:g} s", command.at(0), timeout_s),
                         "run it by hand: it waits for something");
}

std::string content_of(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return "";
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  const ssize_t size = ::pread(fd, text.data(), text.size(), 0);
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

int shell_status(int wait_status) {
  constexpr int kSignalled = 128;
  if (WIFSIGNALED(wait_status)) return kSignalled + WTERMSIG(wait_status);
  return WEXITSTATUS(wait_status);
}

}  // namespace gradsync::launch
