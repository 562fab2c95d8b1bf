#include "harness/launch/namespaces.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "harness/base/errors.h"

namespace gradsync::launch {

namespace {

// What the unsharing child reports after each namespace.
struct Report {
  int error = 0;  // errno, 0: made
  bool user = false;
};

bool write_file(const char* path, const std::string& text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return written;
}

// Becomes root of a new user namespace. `uid_map` maps its user 0 to us: iproute2 is a new program,
// and only user 0 keeps its capabilities over execve().
int unshare_user(const std::string& uid_map, const std::string& gid_map) {
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return errno;
  write_file("/proc/self/setgroups", "deny");  // absent in old kernels, then not needed
  if (!write_file("/proc/self/uid_map", uid_map)) return errno;
  if (!write_file("/proc/self/gid_map", gid_map)) return errno;
  return 0;
}

// The child's life: one namespace after the other, each held until the parent has opened it.
void unshare_repeatedly(int socket, int count, const std::string& uid_map,
                        const std::string& gid_map) {
  Report report;
  for (int i = 0; i < count; ++i) {
    report.error = ::unshare(CLONE_NEWNET) == 0 ? 0 : errno;
    if (report.error == EPERM && i == 0) {
      report.error = unshare_user(uid_map, gid_map);
      report.user = true;
    }
    char go_on = 0;
    if (::write(socket, &report, sizeof report) != sizeof report || report.error != 0) return;
    if (::read(socket, &go_on, 1) != 1) return;
  }
}

[[noreturn]] void throw_forbidden(int error) {
  const char* remedy =
      "run as root, or allow unprivileged user namespaces (sysctl "
      "kernel.unprivileged_userns_clone=1;"
      " on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0; in a container"
      " --cap-add SYS_ADMIN --cap-add NET_ADMIN)";
  if (error == ENOSPC || error == EUSERS) {
    remedy = "raise user.max_user_namespaces and user.max_net_namespaces (sysctl)";
  } else if (error == EINVAL || error == ENOSYS) {
    remedy = "use a kernel with CONFIG_NET_NS and CONFIG_USER_NS";
  }
  throw EnvironmentError::seen_by_doctor(
      fmt::format("network namespaces cannot be made here: {}", std::strerror(error)), remedy);
}

UniqueFd open_namespace(pid_t pid, const char* kind) {
  UniqueFd fd(::open(fmt::format("/proc/{}/ns/{}", pid, kind).c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) throw_forbidden(errno);
  return fd;
}

}  // namespace

int wait_for_exit(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

NamespaceSet::NamespaceSet(int count) {
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    throw_forbidden(errno);
  }
  UniqueFd ours(pair[0]);
  UniqueFd theirs(pair[1]);
  const std::string uid_map = fmt::format("0 {} 1", ::geteuid());
  const std::string gid_map = fmt::format("0 {} 1", ::getegid());
  const pid_t child = ::fork();
  if (child < 0) throw_forbidden(errno);
  if (child == 0) {
    ::close(pair[0]);
    unshare_repeatedly(pair[1], count, uid_map, gid_map);
    ::_exit(0);
  }
  theirs.reset();
  try {
    receive(ours.get(), child, count);
  } catch (...) {
    ours.reset();
    wait_for_exit(child);
    throw;
  }
  wait_for_exit(child);
}

void NamespaceSet::receive(int socket, pid_t child, int count) {
  for (int i = 0; i < count; ++i) {
    Report report;
    ssize_t got = 0;
    do {
      got = ::read(socket, &report, sizeof report);
    } while (got < 0 && errno == EINTR);
    if (got != sizeof report) throw_forbidden(ECHILD);
    if (report.error != 0) throw_forbidden(report.error);
    if (report.user && !user_) user_ = open_namespace(child, "user");
    networks_.push_back(open_namespace(child, "net"));
    if (::send(socket, "", 1, MSG_NOSIGNAL) != 1) throw_forbidden(errno);
  }
}

int NamespaceSet::enter(int index) const {
  if (user_ && ::setns(user_.get(), CLONE_NEWUSER) != 0) return errno;
  if (::setns(networks_[static_cast<std::size_t>(index)].get(), CLONE_NEWNET) != 0) return errno;
  return 0;
}

pid_t NamespaceSet::fork_inside(int index, const std::function<int()>& body) const {
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    throw EnvironmentError(fmt::format("no process can be started: {}", std::strerror(errno)),
                           "raise the process limit (ulimit -u)");
  }
  if (child == 0) {
    if (enter(index) != 0) ::_exit(125);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // after enter(): a change of credentials clears it
    if (::getppid() != parent) ::_exit(125);
    ::_exit(body());
  }
  return child;
}

void NamespaceSet::write_settings(
    int index, const std::vector<std::pair<std::string, std::string>>& settings) const {
  wait_for_exit(fork_inside(index, [&settings] {
    for (const auto& [path, value] : settings) write_file(path.c_str(), value);
    return 0;
  }));
}

std::string NamespaceSet::path(int index) const {
  return fmt::format("/proc/self/fd/{}", networks_[static_cast<std::size_t>(index)].get());
}

}  // namespace gradsync::launch
