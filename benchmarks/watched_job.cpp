#include "benchmarks/watched_job.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "harness/base/build_info.h"
#include "harness/base/child_process.h"
#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "harness/base/log.h"
#include "harness/launch/task_place.h"
#include "harness/watch/program_output.h"

namespace gradsync::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::array kPassedOn = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
constexpr double kPollS = 0.05;
constexpr double kLookS = 0.5;
constexpr int kNoSuchProgram = 127;
constexpr int kNoProgram = 126;

std::atomic<pid_t> job{0};
static_assert(std::atomic<pid_t>::is_always_lock_free);

// What the terminal sends, it sends to the job too; passed on, the job would get it twice.
void on_signal(int number, siginfo_t* info, void*) {
  const bool is_sent_by_a_process = info->si_code <= 0;
  if (is_sent_by_a_process && job > 0) ::kill(job, number);
}

// A signal that we were told to ignore stays ignored, here and in the job.
void pass_on_signals() {
  for (const int number : kPassedOn) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    ::sigaction(number, &action, nullptr);
  }
}

// Holds back the signals to pass on while there is nobody yet to pass them to.
class HeldSignals {
 public:
  HeldSignals() {
    sigset_t held;
    sigemptyset(&held);
    for (const int number : kPassedOn) sigaddset(&held, number);
    ::sigprocmask(SIG_BLOCK, &held, &before_);
  }
  ~HeldSignals() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_{};
};

// Returns 0 or an errno.
int start(const std::vector<std::string>& command, const EnvironmentChanges& changes) {
  const std::vector<std::string> environment = launch::environment_with(changes);
  const HeldSignals held;
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &held.before());
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, command.at(0).c_str(), nullptr, &attributes,
                                   pointers_to(command).data(), pointers_to(environment).data());
  ::posix_spawnattr_destroy(&attributes);
  if (error == 0) job = pid;
  return error;
}

int wait_for_job(const std::function<void()>& look) {
  std::int64_t next_look_ns = steady_clock().now_ns() + nanoseconds(kLookS);
  for (;;) {
    int status = 0;
    const pid_t ended = ::waitpid(job, &status, WNOHANG);
    if (ended == job) {
      job = 0;
      return status;
    }
    if (ended < 0 && errno != EINTR) throw EnvironmentError("the job was lost", "run it again");
    const std::int64_t now_ns = steady_clock().now_ns();
    if (now_ns >= next_look_ns) {
      look();
      next_look_ns = now_ns + nanoseconds(kLookS);
    }
    steady_clock().sleep_until_ns(now_ns + nanoseconds(kPollS));
  }
}

}  // namespace

int run_watched_job(const std::vector<std::string>& command, const EnvironmentChanges& changes,
                    const std::function<void()>& look) {
  pass_on_signals();
  if (const int error = start(command, changes); error != 0) {
    log::error(fmt::format("{}: {}", command.at(0), std::strerror(error)));
    return error == ENOENT ? kNoSuchProgram : kNoProgram;
  }
  return watch::shell_status(wait_for_job(look));
}

watch::PreloadLibrary library_for(const watch::JobTorch& torch, const std::string& folder) {
  const std::string cache = watch::preload_cache();
  const watch::PreloadBuild build(torch, build_info().source_dir, cache.empty() ? folder : cache);
  if (const auto library = build.find()) return *library;
  log::info(fmt::format("building the watcher for torch {}, once: about 20 s ...", torch.version));
  return build.build();
}

EventFolder::EventFolder(const std::string& keep) : is_kept_(!keep.empty()) {
  std::error_code error;
  if (is_kept_) {
    path_ = fs::absolute(keep).string();
    fs::create_directories(path_, error);
    if (!error && !fs::is_empty(path_)) {
      throw ConfigError(fmt::format(
          "--keep: got \"{}\", which holds something, expected a new or empty folder", keep));
    }
  } else {
    path_ = (fs::temp_directory_path(error) / "gradsync_watch_XXXXXX").string();
    if (::mkdtemp(path_.data()) == nullptr) error.assign(errno, std::generic_category());
  }
  if (!error) return;
  throw EnvironmentError(fmt::format("{} cannot be made: {}", path_, error.message()),
                         "set TMPDIR, or --keep, to a folder that can be written");
}

EventFolder::~EventFolder() {
  std::error_code ignored;
  if (!is_kept_) fs::remove_all(path_, ignored);
}

}  // namespace gradsync::cli
