#include "harness/base/child_process.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdint>
#include <cstring>

#include "harness/base/clock.h"

namespace gradsync {

std::vector<char*> pointers_to(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
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
