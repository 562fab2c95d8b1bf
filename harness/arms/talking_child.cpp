#include "harness/arms/talking_child.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "harness/base/child_process.h"
#include "harness/base/errors.h"
#include "harness/launch/program_output.h"

namespace gradsync::arms {
namespace {

[[noreturn]] void throw_unstartable(const std::string& program, const char* step, int error) {
  throw EnvironmentError(
      fmt::format("{} cannot be started: {}: {}", program, step, std::strerror(error)),
      "check the limits of processes and open files");
}

}  // namespace

TalkingChild::TalkingChild(const std::vector<std::string>& command) : program_(command.at(0)) {
  std::array<int, 2> talk{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, talk.data()) != 0) {
    throw_unstartable(program_, "socketpair", errno);
  }
  launch::UniqueFd ours(talk[0]);
  const launch::UniqueFd theirs(talk[1]);
  diagnostics_ = launch::UniqueFd(::memfd_create("gradsync_child_diagnostics", MFD_CLOEXEC));
  if (!diagnostics_) throw_unstartable(program_, "memfd_create", errno);
  std::vector<std::string> by_path = command;
  by_path.front() = std::filesystem::absolute(program_).string();  // not looked up in PATH
  const int error = Spawn(std::move(by_path))
                        .duplicate(theirs.get(), STDIN_FILENO)
                        .duplicate(theirs.get(), STDOUT_FILENO)
                        .duplicate(diagnostics_.get(), STDERR_FILENO)
                        .in_own_group()
                        .start(pid_);
  if (error == ENOEXEC) throw ConfigError(program_ + ": it is no program");
  if (error != 0) throw_unstartable(program_, "posix_spawnp", error);
  lines_ = launch::JsonLines(std::move(ours), program_);
}

TalkingChild::~TalkingChild() {
  if (running()) end(0);
}

void TalkingChild::kill() const {
  if (running()) ::kill(-pid_, SIGKILL);
}

std::string TalkingChild::end(double grace_s) {
  lines_.close();
  std::optional<int> status = wait_for_end(pid_, grace_s);
  if (!status) {
    ::kill(-pid_, SIGTERM);
    status = wait_for_end(pid_, grace_s);
  }
  if (!status) {
    ::kill(-pid_, SIGKILL);
    constexpr double kKernelS = 60;  // as long as it takes it to end a process
    status = wait_for_end(pid_, kKernelS);
  }
  pid_ = -1;
  const std::string last = last_diagnostic();
  const std::string how = status ? describe_end(*status) : "cannot be ended";
  return fmt::format("{} {}{}{}", program_, how, last.empty() ? "" : ": ", last);
}

std::string TalkingChild::last_diagnostic() const {
  const std::string text = launch::content_of(diagnostics_.get());
  const std::size_t end = text.find_last_not_of(" \n");
  if (end == std::string::npos) return "";
  const std::size_t begin = text.rfind('\n', end) + 1;  // npos + 1 is 0
  std::string line = text.substr(begin, end + 1 - begin);
  constexpr std::string_view kMark = "error: ";
  if (line.starts_with(kMark)) line.erase(0, kMark.size());
  return line;
}

}  // namespace gradsync::arms
