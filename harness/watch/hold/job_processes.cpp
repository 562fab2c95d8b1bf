#include "harness/watch/hold/job_processes.h"

#include <fmt/format.h>

#include <cctype>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "harness/base/units.h"
#include "harness/launch/host.h"
#include "harness/watch/inject/environment.h"

namespace gradsync::watch {
namespace {

namespace fs = std::filesystem;

constexpr double kReapS = 0.005;
constexpr double kGoneS = 60;  // as long as it takes it to end a process
// Less than this share of the host's memory left: the job may take the rest before the next look.
constexpr std::int64_t kLeastLeft = 16;

bool belongs_to(const fs::path& process, const std::string& folder) {
  std::ifstream file(process / "environ", std::ios::binary);
  const std::string environment{std::istreambuf_iterator<char>(file), {}};
  const std::string mark = fmt::format("{}={}", kFolderVariable, folder) + '\0';
  return environment.find(mark) != std::string::npos;
}

// Returns the bytes that a process holds beside what it maps of files.
std::int64_t bytes_held_by(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  std::int64_t bytes = 0;
  for (std::string name, rest; file >> name; std::getline(file, rest)) {
    std::int64_t kib = 0;
    if ((name == "RssAnon:" || name == "RssShmem:") && file >> kib) bytes += kib << 10;
  }
  return bytes;
}

std::string bytes_text(std::int64_t bytes) {
  return format_bytes(static_cast<double>(bytes));
}

}  // namespace

std::vector<pid_t> processes_of(const std::string& folder) {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    const bool is_process = std::isdigit(static_cast<unsigned char>(name.front())) != 0;
    if (is_process && belongs_to(entry.path(), folder)) found.push_back(std::stoi(name));
  }
  return found;
}

void kill_processes_of(const std::string& folder) {
  const std::int64_t deadline_ns = steady_clock().now_ns() + nanoseconds(kGoneS);
  for (;;) {
    const std::vector<pid_t> left = processes_of(folder);
    if (left.empty() || steady_clock().now_ns() > deadline_ns) return;
    for (const pid_t pid : left) ::kill(pid, SIGKILL);
    steady_clock().sleep_until_ns(steady_clock().now_ns() + nanoseconds(kReapS));
  }
}

void require_host_memory(const std::string& folder) {
  const auto total = launch::memory_total_bytes();
  const auto left = launch::memory_available_bytes();
  if (!total || !left || *left > *total / kLeastLeft) return;
  std::int64_t held = 0;
  for (const pid_t pid : processes_of(folder)) held += bytes_held_by(pid);
  if (held < *left) return;
  kill_processes_of(folder);
  throw EnvironmentError(
      fmt::format("the job's processes hold {} of the host's memory, {} of {} are left, and they "
                  "were ended",
                  bytes_text(held), bytes_text(*left), bytes_text(*total)),
      "tensors on the CPU are real: make the model on torch.device(\"cuda\") or "
      "torch.device(\"meta\"), or have fewer ranks by predict memory --world");
}

}  // namespace gradsync::watch
