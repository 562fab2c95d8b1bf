#include "in_child.h"

#include <arpa/inet.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <stdexcept>

#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "harness/launch/namespaces.h"

namespace gradsync::launch {

namespace {
constexpr uid_t kNobody = 65534;
constexpr std::uint16_t kPort = 5001;
constexpr double kPatienceSeconds = 60;
}  // namespace

std::string in_child(const std::function<std::string()>& body) {
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) throw std::runtime_error("pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    std::string answer;
    try {
      answer = body();
    } catch (const std::exception& error) {
      answer = error.what();
    }
    const ssize_t written = ::write(pipe[1], answer.data(), answer.size());
    ::_exit(written == static_cast<ssize_t>(answer.size()) ? 0 : 1);
  }
  ::close(pipe[1]);
  std::string answer;
  std::array<char, 4096> bytes;
  for (ssize_t got = 0; (got = ::read(pipe[0], bytes.data(), bytes.size())) > 0;) {
    answer.append(bytes.data(), static_cast<std::size_t>(got));
  }
  ::close(pipe[0]);
  if (const int code = wait_for_exit(child); code != 0) {
    answer += "child ended with " + std::to_string(code);
  }
  return answer;
}

void become_nobody() {
  const bool done = ::setgroups(0, nullptr) == 0 && ::setresgid(kNobody, kNobody, kNobody) == 0 &&
                    ::setresuid(kNobody, kNobody, kNobody) == 0 && ::prctl(PR_SET_DUMPABLE, 1) == 0;
  if (!done) throw std::runtime_error("cannot become nobody");
}

std::string try_to_connect(const Fabric& fabric, int sender, int receiver) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kPort);
  ::inet_pton(AF_INET, fabric.endpoint(receiver).address.c_str(), &address.sin_addr);
  auto* const where = reinterpret_cast<sockaddr*>(&address);
  std::array<int, 2> ready{};
  if (::pipe(ready.data()) != 0) return "pipe";

  const pid_t listener = ::fork();
  if (listener == 0) {
    const bool entered = fabric.enter(receiver) == 0;
    const int inside = ::socket(AF_INET, SOCK_STREAM, 0);
    const int yes = 1;
    ::setsockopt(inside, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (!entered || ::bind(inside, where, sizeof address) != 0 || ::listen(inside, 1) != 0) {
      ::_exit(1);
    }
    const bool told = ::write(ready[1], "", 1) == 1;
    pollfd wait{inside, POLLIN, 0};
    ::_exit(told && ::poll(&wait, 1, static_cast<int>(kPatienceSeconds * 1e3)) == 1 ? 0 : 2);
  }
  const std::string said = in_child([&]() -> std::string {
    char byte = 0;
    ::close(ready[1]);
    if (::read(ready[0], &byte, 1) != 1) return "no process listens. ";
    if (const int error = fabric.enter(sender); error != 0) return std::strerror(error);
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::connect(socket, where, sizeof address) != 0) return std::strerror(errno);
    return "";
  });
  ::close(ready[0]);
  ::close(ready[1]);
  const int code = wait_for_exit(listener);
  return code == 0 ? said : said + "listener " + std::to_string(code);
}

std::string why_no_namespaces() {
  try {
    const NamespaceSet probe(1);
    return find_program("tc").empty() ? "iproute2 is not installed" : "";
  } catch (const EnvironmentError& error) {
    return error.what();
  }
}

std::string why_no_unprivileged_namespaces() {
  if (::geteuid() != 0) return "already a user without privilege: the other tests are it";
  return in_child([]() -> std::string {
    become_nobody();
    return ::unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 ? "" : "user namespaces are forbidden here";
  });
}

bool eventually(const std::function<bool()>& condition) {
  const std::int64_t deadline_ns = steady_clock().now_ns() + nanoseconds(kPatienceSeconds);
  while (!condition()) {
    if (steady_clock().now_ns() > deadline_ns) return false;
    ::usleep(10'000);
  }
  return true;
}

}  // namespace gradsync::launch
