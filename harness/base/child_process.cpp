#include "harness/base/child_process.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "harness/base/clock.h"

namespace gradsync {

std::vector<char*> pointers_to(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

Spawn::Spawn(std::vector<std::string> command) : command_(std::move(command)) {
  ::posix_spawn_file_actions_init(&files_);
  ::posix_spawnattr_init(&attributes_);
}

Spawn::~Spawn() {
  ::posix_spawnattr_destroy(&attributes_);
  ::posix_spawn_file_actions_destroy(&files_);
}

Spawn& Spawn::environment(std::vector<std::string> variables) {
  environment_ = std::move(variables);
  return *this;
}

Spawn& Spawn::open(int fd, const std::string& path, int flags) {
  constexpr mode_t kMode = 0644;
  ::posix_spawn_file_actions_addopen(&files_, fd, path.c_str(), flags, kMode);
  return *this;
}

Spawn& Spawn::duplicate(int source, int fd) {
  ::posix_spawn_file_actions_adddup2(&files_, source, fd);
  return *this;
}

Spawn& Spawn::in_own_group() {
  flags_ = static_cast<short>(flags_ | POSIX_SPAWN_SETPGROUP);
  return *this;
}

Spawn& Spawn::blocking(const sigset_t& signals) {
  ::posix_spawnattr_setsigmask(&attributes_, &signals);
  flags_ = static_cast<short>(flags_ | POSIX_SPAWN_SETSIGMASK);
  return *this;
}

int Spawn::start(pid_t& pid) {
  ::posix_spawnattr_setflags(&attributes_, flags_);
  const std::vector<char*> arguments = pointers_to(command_);
  const std::vector<char*> variables =
      environment_ ? pointers_to(*environment_) : std::vector<char*>{};
  return ::posix_spawnp(&pid, arguments[0], &files_, &attributes_, arguments.data(),
                        environment_ ? variables.data() : environ);
}

std::optional<int> wait_for_end(pid_t pid, double timeout_s) {
  constexpr double kLookS = 0.005;
  const std::int64_t deadline_ns = steady_clock().now_ns() + nanoseconds(timeout_s);
  for (;;) {
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG) == pid) return status;
    const std::int64_t now_ns = steady_clock().now_ns();
    if (now_ns >= deadline_ns) return std::nullopt;
    steady_clock().sleep_until_ns(now_ns + nanoseconds(kLookS));
  }
}

std::string describe_end(int wait_status) {
  if (!WIFSIGNALED(wait_status)) {
    return fmt::format("exited with status {}", WEXITSTATUS(wait_status));
  }
  const int signal = WTERMSIG(wait_status);
  return fmt::format("was killed by signal {} ({})", signal, ::strsignal(signal));
}

}  // namespace gradsync
