#include "harness/watch/hold/watched_job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "harness/base/child_process.h"
#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "harness/base/log.h"
#include "harness/base/program_files.h"
#include "harness/launch/program_output.h"
#include "harness/launch/task_place.h"

namespace gradsync::watch {
namespace {

namespace fs = std::filesystem;

constexpr std::array kPassedOn = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
constexpr double kPollS = 0.05;
constexpr double kLookS = 0.5;
constexpr int kNoSuchProgram = 127;
constexpr int kNoProgram = 126;
constexpr std::string_view kFolderName = "gradsync_watch_";  // then letters that mkdtemp chooses
constexpr std::size_t kFolderLetters = 6;
constexpr std::int64_t kYoungS = 60;

std::atomic<pid_t> job{0};
static_assert(std::atomic<pid_t>::is_always_lock_free);

// What the terminal sends, it sends to the job too; passed on, the job would get it twice.
void on_signal(int number, siginfo_t* info, void*) {
  const bool is_sent_by_a_process = info->si_code <= 0;
  if (is_sent_by_a_process && job > 0) ::kill(job, number);
}

// Passes the signals on to the job. A signal that this process ignores stays ignored, here and in
// the job.
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

// Blocks the signals to pass on until there is a job to pass them to.
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
  const HeldSignals held;
  pid_t pid = 0;
  const int error = Spawn(command)
                        .environment(launch::environment_with(changes))
                        .blocking(held.before())
                        .start(pid);
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

[[noreturn]] void fail_folder(const std::string& path, const std::error_code& error) {
  throw EnvironmentError(fmt::format("{} cannot be made: {}", path, error.message()),
                         "set TMPDIR, or --keep, to a folder that can be written");
}

// Returns none where somebody else holds it. Closed in what we start: only we hold it.
launch::UniqueFd lock_folder(const std::string& path) {
  launch::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  return fd && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0 ? std::move(fd) : launch::UniqueFd();
}

bool is_event_folder(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with(kFolderName) && name.size() == kFolderName.size() + kFolderLetters;
}

// Whether both are folders of one user, and `path` was last changed well before `own`, which is
// new. A younger one may be in use: it is made, and then locked.
bool may_be_abandoned(const std::string& path, const std::string& own) {
  struct stat status {};
  struct stat own_status {};
  return ::lstat(path.c_str(), &status) == 0 && ::lstat(own.c_str(), &own_status) == 0 &&
         S_ISDIR(status.st_mode) && status.st_uid == own_status.st_uid &&
         own_status.st_mtim.tv_sec - status.st_mtim.tv_sec > kYoungS;
}

// Removes what was left beside the new folder `own` by those who were killed.
void remove_abandoned(const std::string& own) {
  std::error_code error;
  fs::directory_iterator entry(fs::path(own).parent_path(), error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string path = entry->path().string();
    if (!is_event_folder(path) || !may_be_abandoned(path, own)) continue;
    std::error_code ignored;
    if (const launch::UniqueFd lock = lock_folder(path)) fs::remove_all(path, ignored);
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
  return launch::shell_status(wait_for_job(look));
}

watch::PreloadLibrary library_for(const watch::JobTorch& torch, const std::string& folder) {
  if (const auto shipped = watch::shipped_library(torch)) return *shipped;
  const std::string cache = watch::preload_cache();
  const watch::PreloadBuild build(torch, data_folder(), cache.empty() ? folder : cache);
  if (const auto library = build.find()) return *library;
  log::info(fmt::format("building the watcher for torch {}, once: about 20 s ...", torch.version));
  return build.build();
}

EventFolder::EventFolder(const std::string& keep) : is_kept_(!keep.empty()) {
  if (is_kept_) {
    make_kept(keep);
  } else {
    make_temporary();
  }
}

void EventFolder::make_kept(const std::string& keep) {
  std::error_code error;
  path_ = fs::absolute(keep).string();
  fs::create_directories(path_, error);
  if (error) fail_folder(path_, error);
  if (fs::is_empty(path_)) return;
  throw ConfigError(fmt::format(
      "--keep: got \"{}\", which holds something, expected a new or empty folder", keep));
}

void EventFolder::make_temporary() {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  if (error) fail_folder("a folder in TMPDIR", error);
  path_ =
      (fs::absolute(parent) / fmt::format("{}{:X>{}}", kFolderName, "", kFolderLetters)).string();
  if (::mkdtemp(path_.data()) == nullptr) fail_folder(path_, {errno, std::generic_category()});
  lock_ = lock_folder(path_);
  remove_abandoned(path_);
}

EventFolder::~EventFolder() {
  std::error_code ignored;
  if (!is_kept_) fs::remove_all(path_, ignored);
}

}  // namespace gradsync::watch
