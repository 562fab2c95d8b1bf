#include "harness/launch/rank_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>

#include "harness/base/child_process.h"
#include "harness/base/errors.h"
#include "harness/launch/task_place.h"

namespace gradsync::launch {

namespace {

// What a child could not do on its way to its program.
struct Failure {
  const char* step = nullptr;  // a literal, so the same address on both sides of fork()
  int error = 0;
};

[[noreturn]] void throw_unstartable(int rank, const std::string& step, int error) {
  throw EnvironmentError(
      fmt::format("rank {} cannot be started: {}: {}", rank, step, std::strerror(error)),
      "check the program's path and the limits of processes and open files");
}

// Everything the child needs, laid out before fork(): after it, system calls only.
struct ChildPlan {
  const Fabric* fabric;
  int rank;
  int cpu;
  pid_t parent;
  int control_fd;
  int progress_fd;
  int failure_fd;  // closed by a successful execve
  char** argv;
  char** envp;
};

const char* prepare_child(const ChildPlan& plan) {
  // A group of its own: Ctrl-C in the terminal goes to the launcher alone, which decides.
  if (::setpgid(0, 0) != 0) return "setpgid";
  if (const int error = plan.fabric->enter(plan.rank); error != 0) {
    errno = error;
    return "entering its network namespace";
  }
  // After enter(), since a change of credentials clears it; then look whether it came too late.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return "prctl";
  if (::getppid() != plan.parent) ::_exit(1);
  if (plan.cpu >= 0) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(plan.cpu, &cpus);
    if (::sched_setaffinity(0, sizeof cpus, &cpus) != 0) return "sched_setaffinity";
  }
  // Standard output is for the launcher's results; input would make it compete for the terminal.
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null < 0 || ::dup2(null, 0) < 0 || ::dup2(2, 1) < 0)
    return "redirecting its input and output";
  ::fcntl(plan.control_fd, F_SETFD, 0);
  ::fcntl(plan.progress_fd, F_SETFD, 0);
  // Signals as a fresh program expects them: an ignored or blocked one would survive execve.
  for (const int number : {SIGINT, SIGTERM, SIGPIPE, SIGHUP, SIGCHLD}) ::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(plan.argv[0], plan.argv, plan.envp);
  return plan.argv[0];
}

[[noreturn]] void run_child(const ChildPlan& plan) {
  Failure failure;
  failure.step = prepare_child(plan);
  failure.error = errno;
  const ssize_t ignored = ::write(plan.failure_fd, &failure, sizeof failure);
  ::_exit(ignored == sizeof failure ? 127 : 126);
}

std::shared_ptr<RankProgress> make_progress(int rank, UniqueFd& fd) {
  fd = UniqueFd(::memfd_create("gradsync_rank_progress", MFD_CLOEXEC));
  if (!fd || ::ftruncate(fd.get(), sizeof(RankProgress)) != 0) {
    throw_unstartable(rank, "its shared memory", errno);
  }
  std::shared_ptr<RankProgress> progress(
      new (map_rank_progress(fd.get())) RankProgress{},
      [](RankProgress* mapped) { ::munmap(mapped, sizeof(RankProgress)); });
  progress->trial = -1;
  return progress;
}

// Waits until the child's program runs (an end of file: execve closed the pipe) or it failed.
Failure wait_for_program(int failure_fd) {
  Failure failure;
  ssize_t got = 0;
  do {
    got = ::read(failure_fd, &failure, sizeof failure);
  } while (got < 0 && errno == EINTR);
  return failure;
}

}  // namespace

RankProcess::RankProcess(int rank, const Fabric& fabric, RankStart start) {
  std::array<int, 2> channel{};
  std::array<int, 2> failure_pipe{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel.data()) != 0) {
    throw_unstartable(rank, "its control channel", errno);
  }
  UniqueFd ours(channel[0]);
  const UniqueFd theirs(channel[1]);
  if (::pipe2(failure_pipe.data(), O_CLOEXEC) != 0) throw_unstartable(rank, "a pipe", errno);
  const UniqueFd failure_out(failure_pipe[0]);
  UniqueFd failure_in(failure_pipe[1]);
  UniqueFd progress_fd;
  progress_ = make_progress(rank, progress_fd);

  start.environment.emplace_back("GRADSYNC_CONTROL_FD", std::to_string(theirs.get()));
  start.environment.emplace_back("GRADSYNC_PROGRESS_FD", std::to_string(progress_fd.get()));
  const std::vector<std::string> environment = environment_with(start.environment);
  const std::vector<char*> argv = pointers_to(start.command);
  const std::vector<char*> envp = pointers_to(environment);
  const ChildPlan plan{&fabric,
                       rank,
                       start.cpu,
                       ::getpid(),
                       theirs.get(),
                       progress_fd.get(),
                       failure_in.get(),
                       const_cast<char**>(argv.data()),
                       const_cast<char**>(envp.data())};
  pid_ = ::fork();
  if (pid_ < 0) throw_unstartable(rank, "fork", errno);
  if (pid_ == 0) run_child(plan);
  failure_in.reset();
  control_ = JsonLines(std::move(ours), fmt::format("a rank (process {})", pid_));
  // The failed step may be argv[0], which lies at the same address here.
  Failure failure = wait_for_program(failure_out.get());
  pid_fd_ = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (failure.step == nullptr && !pid_fd_) failure = {"pidfd_open (needs Linux 5.3)", errno};
  running_ = true;
  if (failure.step != nullptr) {
    stop();
    throw_unstartable(rank, failure.step, failure.error);
  }
}

RankProcess::~RankProcess() {
  stop();
}

void RankProcess::stop() {
  signal(SIGKILL);
  while (running_ && ::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  running_ = false;
}

void RankProcess::send(const nlohmann::json& message) {
  if (running_) control_.send(message);
}

void RankProcess::flush() {
  if (running_) control_.flush();
}

std::optional<int> RankProcess::reap() {
  int status = 0;
  if (!running_ || ::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  running_ = false;
  return status;
}

void RankProcess::signal(int number) const {
  if (running_) ::kill(-pid_, number);
}

bool RankProcess::wait(double timeout_s) const {
  pollfd ended{pid_fd_.get(), POLLIN, 0};
  return !running_ || ::poll(&ended, 1, static_cast<int>(timeout_s * 1e3)) > 0;
}

}  // namespace gradsync::launch
