#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "harness/base/errors.h"
#include "harness/results/store.h"
#include "harness/results/timelines.h"
#include "tests/harness/results/limits.h"
#include "tests/harness/results/samples.h"

namespace gradsync::results {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

std::string line(const TrialRecord& trial) {
  return json(trial).dump() + "\n";
}

// These have no timelines: where those lie, and what becomes of them, is in timelines_test.cpp.
TrialRecord plain_trial(int launch = 0) {
  return without_timelines(sample_trial(launch));
}

std::string config_error(const std::string& directory) {
  try {
    read_trials(directory);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(TrialLog, AppendsWholeLinesInOrder) {
  const TemporaryDirectory dir;
  {
    TrialLog log(dir.path());
    log.append(plain_trial(0));
    log.append(plain_trial(1));
  }
  TrialLog(dir.path()).append(plain_trial(2));
  EXPECT_EQ(slurp(dir / "trials.jsonl"),
            line(plain_trial(0)) + line(plain_trial(1)) + line(plain_trial(2)));
  const auto trials = read_trials(dir.path());
  ASSERT_EQ(trials.size(), 3U);
  EXPECT_EQ(trials.at(2).launch, 2);
}

TEST(TrialLog, TrialIsInTheFileAsSoonAsAppendReturns) {
  const TemporaryDirectory dir;
  TrialLog log(dir.path());
  log.append(plain_trial(0));
  EXPECT_EQ(slurp(dir / "trials.jsonl"), line(plain_trial(0)));
}

TEST(TrialLog, FullDiskKeepsEarlierLinesAndNoPartOfTheNext) {
  const TemporaryDirectory dir;
  TrialLog log(dir.path());
  log.append(plain_trial(0));
  const auto whole = slurp(dir / "trials.jsonl");
  {
    const FileSizeLimit limit(whole.size() + 100);
    try {
      log.append(plain_trial(1));
      FAIL() << "wrote past the limit";
    } catch (const ResultsError& error) {
      EXPECT_THAT(error.what(), HasSubstr("trials.jsonl: cannot be written: File too large"));
    }
  }
  EXPECT_EQ(slurp(dir / "trials.jsonl"), whole);
  log.append(plain_trial(2));
  EXPECT_EQ(slurp(dir / "trials.jsonl"), whole + line(plain_trial(2)));
}

TEST(TrialLog, SecondWriterIsTurnedAway) {
  const TemporaryDirectory dir;
  const TrialLog first(dir.path());
  try {
    const TrialLog second(dir.path());
    FAIL() << "two runs share a directory";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(dir.path()), HasSubstr("another run")));
  }
}

TEST(TrialLog, LockEndsWithItsProcess) {
  const TemporaryDirectory dir;
  const pid_t child = ::fork();
  if (child == 0) {
    const TrialLog log(dir.path());
    ::_exit(0);  // without destructors, as a killed run
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  EXPECT_NO_THROW(TrialLog(dir.path()).append(plain_trial()));
}

TEST(TrialLog, DropsWhatACrashLeftOfALine) {
  const TemporaryDirectory dir;
  const auto cut = line(plain_trial(1));
  for (const std::size_t kept : {std::size_t{1}, std::size_t{2}, cut.size() / 2, cut.size() - 2}) {
    spill(dir / "trials.jsonl", line(plain_trial(0)) + cut.substr(0, kept));
    std::string warning;
    EXPECT_EQ(read_trials(dir.path(), &warning).size(), 1U) << kept;
    EXPECT_THAT(warning, AllOf(HasSubstr("trials.jsonl:2"), HasSubstr("cut off")));
    TrialLog(dir.path()).append(plain_trial(2));
    EXPECT_EQ(slurp(dir / "trials.jsonl"), line(plain_trial(0)) + line(plain_trial(2)));
  }
}

TEST(TrialLog, KeepsALastLineThatLacksOnlyItsNewline) {
  const TemporaryDirectory dir;
  const auto text = line(plain_trial(0));
  spill(dir / "trials.jsonl", text.substr(0, text.size() - 1));
  std::string warning = "old";
  EXPECT_EQ(read_trials(dir.path(), &warning).size(), 1U);
  EXPECT_EQ(warning, "");
  TrialLog(dir.path()).append(plain_trial(1));
  EXPECT_EQ(slurp(dir / "trials.jsonl"), text + line(plain_trial(1)));
}

TEST(TrialLog, BytesThatAreNoTextDoNotCostTheRecord) {
  const TemporaryDirectory dir;
  TrialRecord trial = plain_trial();
  trial.status = Status::Failed;
  trial.reason = "peer said \xff\xfe";
  TrialLog(dir.path()).append(trial);
  EXPECT_THAT(read_trials(dir.path()).at(0).reason, HasSubstr("peer said"));
}

TEST(ReadTrials, NoFileMeansNoTrials) {
  const TemporaryDirectory dir;
  EXPECT_TRUE(read_trials(dir.path()).empty());
}

TEST(ReadTrials, ForeignLinesAreNamed) {
  const TemporaryDirectory dir;
  const auto good = line(plain_trial(0));
  for (const std::string foreign : {"hello\n", "{\"hello\": 1}\n", "[1, 2]\n", "7\n", "\n", "hello",
                                    "{\"schema\": \"other/1\"}", "{\"cell\": {\n"}) {
    spill(dir / "trials.jsonl", good + foreign);
    EXPECT_THAT(config_error(dir.path()),
                AllOf(HasSubstr("trials.jsonl:2: "), HasSubstr("not a trial record")))
        << foreign;
    EXPECT_THROW(TrialLog log(dir.path()), ConfigError) << foreign;
    EXPECT_EQ(slurp(dir / "trials.jsonl"), good + foreign) << "a foreign file was changed";
  }
}

TEST(ReadTrials, NewerVersionSaysToUpgrade) {
  const TemporaryDirectory dir;
  json newer = plain_trial();
  newer["schema"] = "gradsync.trial/2";
  spill(dir / "trials.jsonl", newer.dump() + "\n");
  EXPECT_THAT(config_error(dir.path()), AllOf(HasSubstr("trials.jsonl:1"),
                                              HasSubstr("gradsync.trial/2"), HasSubstr("upgrade")));
}

TEST(ReadTrials, RepeatedTrialReplacesTheEarlierOne) {
  const TemporaryDirectory dir;
  TrialRecord failed = plain_trial(0);
  failed.status = Status::Failed;
  TrialRecord again = plain_trial(0);
  again.order = 99;
  spill(dir / "trials.jsonl", line(failed) + line(plain_trial(1)) + line(again));
  const auto trials = read_trials(dir.path());
  ASSERT_EQ(trials.size(), 2U);
  EXPECT_EQ(trials.at(0).status, Status::Ok);
  EXPECT_EQ(trials.at(0).order, 99);
  EXPECT_EQ(trials.at(1).launch, 1);
}

}  // namespace
}  // namespace gradsync::results
