#include "harness/paper/standins/nccl/log.h"

#include <strings.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "harness/paper/standins/nccl/failure.h"
#include "harness/paper/standins/nccl/groups.h"

namespace gradsync::paper::nccl {
namespace {

std::string host_name() {
  std::array<char, 128> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

bool level_is_one_of(std::initializer_list<const char*> levels) {
  const char* wanted = std::getenv("NCCL_DEBUG");
  for (const char* level : levels) {
    if (wanted != nullptr && ::strcasecmp(wanted, level) == 0) return true;
  }
  return false;
}

std::string expanded(const std::string& pattern) {
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const std::string two = pattern.substr(i, 2);
    if (two == "%h") path += host_name();
    if (two == "%p") path += std::to_string(::getpid());
    if (two == "%h" || two == "%p") {
      ++i;
    } else {
      path += pattern[i];
    }
  }
  return path;
}

// Opened once, as NCCL does; a file that cannot be opened leaves stdout.
std::FILE* destination() {
  static std::FILE* const file = [] {
    const char* pattern = std::getenv("NCCL_DEBUG_FILE");
    std::FILE* opened = pattern == nullptr ? nullptr : std::fopen(expanded(pattern).c_str(), "we");
    return opened == nullptr ? stdout : opened;
  }();
  return file;
}

struct LastError {
  std::mutex mutex;
  std::array<char, 1024> text;
};

LastError& last() {
  static auto* error = new LastError{};
  return *error;
}

}  // namespace

void log_line(int device, const char* level, const std::string& line) {
  std::fprintf(destination(), "%s:%d:%d [%d] NCCL %s %s (paper)\n", host_name().c_str(), ::getpid(),
               ::gettid(), device, level, line.c_str());
  std::fflush(destination());
}

bool logs_info() {
  return level_is_one_of({"INFO", "TRACE"});
}

void log_warning(const std::string& line) {
  if (logs_info() || level_is_one_of({"WARN"})) log_line(0, "WARN", line);
}

std::string host_identity() {
  const char* given = std::getenv("NCCL_HOSTID");
  return given != nullptr && *given != '\0' ? given : host_name();
}

void record(const Failure& failure) {
  log_warning(failure.text);
  fail_group(failure.result);
  const std::lock_guard lock(last().mutex);
  std::strncpy(last().text.data(), failure.text.c_str(), last().text.size() - 1);
}

const char* last_error() {
  return last().text.data();
}

}  // namespace gradsync::paper::nccl
