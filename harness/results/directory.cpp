#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "harness/base/errors.h"
#include "harness/results/store.h"
#include "harness/results/timelines.h"
#include "harness/results/write_file.h"

namespace gradsync::results {

namespace fs = std::filesystem;

namespace {

// What a run writes, and so what --force may remove.
constexpr const char* kOurs[] = {kTrialsFile,   kTimelinesFile,  kResultFile,      kSearchFile,
                                 kFastestFile,  kGateFile,       kTurnsFile,       kGatePlanFile,
                                 kCandidateRun, kBaselineOutput, kCandidateOutput, kControlOutput,
                                 kJobOutput,    kWatchedFile,    kCountsFile,      "benchmark.json",
                                 "table.md",    "plots",         "forest.png",     "forest.svg"};

// "result.json.tmp-4711": our mark, then digits to the end.
bool is_temporary(const fs::path& path) {
  const std::string name = path.filename().string();
  const auto mark = name.rfind(kTemporaryMark);
  if (mark == std::string::npos) return false;
  const auto digits = name.substr(mark + std::strlen(kTemporaryMark));
  return !digits.empty() && digits.find_first_not_of("0123456789") == std::string::npos;
}

void make_directory(const std::string& directory) {
  std::error_code error;
  for (fs::path place = fs::absolute(directory); place.has_relative_path();
       place = place.parent_path()) {
    if (fs::exists(place, error) && !fs::is_directory(place, error)) {
      throw ConfigError(
          fmt::format("--out {}: {} is a file, expected a directory, or a name not in use",
                      directory, place.string()));
    }
  }
  fs::create_directories(directory, error);
  if (error) fail_write(directory, "created", error.value());
  if (::access(directory.c_str(), R_OK | W_OK | X_OK) != 0)
    fail_write(directory, "written to", errno);
}

void remove_temporaries(const std::string& directory) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (is_temporary(entry.path())) fs::remove(entry.path(), error);
    if (error) fail_write(entry.path().string(), "removed", error.value());
  }
}

void remove_earlier_run(const std::string& directory) {
  for (const char* name : kOurs) {
    std::error_code error;
    fs::remove_all(fs::path(directory) / name, error);
    if (error) fail_write(directory + "/" + name, "removed", error.value());
  }
}

}  // namespace

DirectoryLock::DirectoryLock(const std::string& directory)
    : fd_(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (fd_ < 0) fail_write(directory, "opened", errno);
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
  const int error = errno;
  ::close(fd_);
  if (error != EWOULDBLOCK) fail_write(directory, "locked", error);
  throw ConfigError(fmt::format(
      "{}: another run is writing its results here; wait for it or choose another --out",
      directory));
}

DirectoryLock::~DirectoryLock() {
  ::close(fd_);
}

void prepare_directory(const std::string& directory, bool resume, bool force) {
  if (resume && force) {
    throw ConfigError("--resume keeps earlier results and --force removes them: give one of them");
  }
  if (resume && !fs::exists(directory)) {
    throw ConfigError(fmt::format("{}: nothing to resume, there is no such directory", directory));
  }
  make_directory(directory);
  const DirectoryLock lock(directory);
  remove_temporaries(directory);
  if (fs::is_empty(directory)) return;
  const bool holds_run = fs::exists(fs::path(directory) / kTrialsFile) ||
                         fs::exists(fs::path(directory) / kResultFile);
  if (resume && !holds_run) {
    throw ConfigError(fmt::format("{}: nothing to resume, it holds neither {} nor {}", directory,
                                  kTrialsFile, kResultFile));
  }
  if (resume) return;
  if (!force) {
    throw ConfigError(fmt::format(
        "{}: not empty; choose another --out, or {}", directory,
        holds_run ? "--resume to go on with the run in it, or --force to replace that run"
                  : "--force to replace what an earlier command left in it"));
  }
  remove_earlier_run(directory);
}

}  // namespace gradsync::results
