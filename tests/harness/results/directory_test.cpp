#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "harness/base/errors.h"
#include "harness/results/store.h"
#include "tests/harness/results/samples.h"

namespace gradsync::results {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr bool kResume = true;
constexpr bool kForce = true;

template <typename Error>
std::string refusal(const std::string& directory, bool resume = false, bool force = false) {
  try {
    prepare_directory(directory, resume, force);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

void leave_a_run(const TemporaryDirectory& dir) {
  for (const char* name : {"trials.jsonl", "result.json", "benchmark.json", "table.md"}) {
    spill(dir / name, "x");
  }
  fs::create_directory(dir / "plots");
  spill(dir / "plots/bars.png", "x");
}

TEST(PrepareDirectory, MakesParents) {
  const TemporaryDirectory dir;
  prepare_directory(dir / "a/b/c", false, false);
  EXPECT_TRUE(fs::is_directory(dir / "a/b/c"));
  prepare_directory(dir / "a/b/c", false, false);  // there and empty: fine
}

TEST(PrepareDirectory, RefusesATakenOneAndLeavesItAlone) {
  const TemporaryDirectory dir;
  leave_a_run(dir);
  EXPECT_THAT(refusal<ConfigError>(dir.path()), AllOf(HasSubstr(dir.path()), HasSubstr("not empty"),
                                                      HasSubstr("--resume"), HasSubstr("--force")));
  EXPECT_EQ(slurp(dir / "trials.jsonl"), "x");
}

TEST(PrepareDirectory, OffersToResumeOnlyWhereThereIsARun) {
  const TemporaryDirectory dir;
  spill(dir / "gate.json", "x");
  EXPECT_THAT(refusal<ConfigError>(dir.path()),
              AllOf(HasSubstr("not empty"), HasSubstr("--force"), Not(HasSubstr("--resume"))));
}

TEST(PrepareDirectory, ForceRemovesWhatTheCommandsOfAGatePrinted) {
  const TemporaryDirectory dir;
  for (const char* name : {"gate.json", "baseline.log", "candidate.log", "control.log"}) {
    spill(dir / name, "x");
  }
  prepare_directory(dir.path(), false, kForce);
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(PrepareDirectory, ResumeKeepsEverything) {
  const TemporaryDirectory dir;
  leave_a_run(dir);
  prepare_directory(dir.path(), kResume, false);
  EXPECT_TRUE(fs::exists(dir / "trials.jsonl"));
  EXPECT_TRUE(fs::exists(dir / "plots/bars.png"));
}

TEST(PrepareDirectory, ForceRemovesOurFilesAndNoOthers) {
  const TemporaryDirectory dir;
  leave_a_run(dir);
  spill(dir / "thesis.tex", "precious");
  prepare_directory(dir.path(), false, kForce);
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), {}), 1);
  EXPECT_EQ(slurp(dir / "thesis.tex"), "precious");
}

TEST(PrepareDirectory, ResumeNeedsARunToResume) {
  const TemporaryDirectory dir;
  EXPECT_THAT(refusal<ConfigError>(dir / "typo", kResume), HasSubstr("nothing to resume"));
  EXPECT_FALSE(fs::exists(dir / "typo"));
  spill(dir / "thesis.tex", "precious");
  EXPECT_THAT(refusal<ConfigError>(dir.path(), kResume), HasSubstr("nothing to resume"));
}

TEST(PrepareDirectory, ResumeAndForceExcludeEachOther) {
  const TemporaryDirectory dir;
  leave_a_run(dir);
  EXPECT_THAT(refusal<ConfigError>(dir.path(), kResume, kForce), HasSubstr("give one of them"));
  EXPECT_TRUE(fs::exists(dir / "trials.jsonl"));
}

TEST(PrepareDirectory, FileInItsPlaceIsNamed) {
  const TemporaryDirectory dir;
  spill(dir / "taken", "");
  EXPECT_THAT(refusal<ConfigError>(dir / "taken"), HasSubstr("is a file, expected a directory"));
  EXPECT_THAT(refusal<ConfigError>(dir / "taken/below"), HasSubstr(dir / "taken"));
}

TEST(PrepareDirectory, RemovesTemporariesOfACrashedRunAndOnlyThose) {
  const TemporaryDirectory dir;
  leave_a_run(dir);
  spill(dir / "result.json.tmp-4711", "half");
  spill(dir / "notes.tmp-old", "kept");
  prepare_directory(dir.path(), kResume, false);
  EXPECT_FALSE(fs::exists(dir / "result.json.tmp-4711"));
  EXPECT_TRUE(fs::exists(dir / "notes.tmp-old"));
}

TEST(PrepareDirectory, ForceDoesNotTouchARunningRun) {
  const TemporaryDirectory dir;
  TrialLog running(dir.path());
  running.append(sample_trial());
  EXPECT_THAT(refusal<ConfigError>(dir.path(), false, kForce), HasSubstr("another run"));
  EXPECT_EQ(read_trials(dir.path()).size(), 1U);
}

TEST(PrepareDirectory, UnwritableIsAResultsError) {
  EXPECT_THAT(refusal<ResultsError>("/proc/gradsync_results"), HasSubstr("cannot be created"));
}

TEST(PrepareDirectory, ReadOnlyDirectoryIsAResultsError) {
  const TemporaryDirectory dir;
  ::chmod(dir.path().c_str(), 0555);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(2);  // root may write anywhere
    const auto text = refusal<ResultsError>(dir.path());
    ::_exit(text.find("cannot be written to: Permission denied") == std::string::npos ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ::chmod(dir.path().c_str(), 0755);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace gradsync::results
