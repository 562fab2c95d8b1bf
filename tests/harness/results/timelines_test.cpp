#include "harness/results/timelines.h"

#include <gmock/gmock.h>

#include "harness/base/errors.h"
#include "harness/results/store.h"
#include "tests/harness/results/limits.h"
#include "tests/harness/results/samples.h"

namespace gradsync::results {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What the sample's rank has of single steps, as JSON.
json timelines_of(const TrialRecord& trial) {
  json out;
  for (const RankRecord& rank : trial.ranks) {
    json one = rank;
    out.push_back({one["timeline_start_s"], one["timeline_events"], one["timeline_phases"]});
  }
  return out;
}

json memory_of(const std::string& directory, const TrialRecord& trial) {
  RankRecord rank;
  rank.memory_timeline = TimelinesFile(directory).memory_of(trial);
  return json(rank).value("memory_timeline", json());
}

TEST(Timelines, LieBesideTheTrialAndAreReadWithIt) {
  const TemporaryDirectory dir;
  TrialLog log(dir.path());
  for (int launch = 0; launch < 3; ++launch) log.append(sample_trial(launch));
  EXPECT_THAT(slurp(dir / "trials.jsonl"), Not(HasSubstr("timeline_events")));
  for (const TrialRecord& trial : read_trials(dir.path())) {
    EXPECT_EQ(timelines_of(trial), timelines_of(sample_trial()));
    EXPECT_THAT(trial.ranks[0].memory_timeline, IsEmpty()) << "read where it is asked for";
    EXPECT_EQ(memory_of(dir.path(), trial), json(sample_trial().ranks[0])["memory_timeline"]);
  }
}

TEST(Timelines, OfATrialThatWasAppendedAreKeptButForItsMemory) {
  const TemporaryDirectory dir;
  const TrialRecord kept = TrialLog(dir.path()).append(sample_trial());
  EXPECT_EQ(timelines_of(kept), timelines_of(sample_trial()));
  EXPECT_THAT(kept.ranks[0].memory_timeline, IsEmpty());
  EXPECT_EQ(memory_of(dir.path(), kept), json(sample_trial().ranks[0])["memory_timeline"]);
}

TEST(Timelines, OfATrialWithoutAnyAreNoLines) {
  const TemporaryDirectory dir;
  TrialRecord failed;
  failed.status = Status::Failed;
  failed.reason = "x";
  failed.cell = json::object();
  TrialLog(dir.path()).append(failed);
  EXPECT_EQ(slurp(dir / "timelines.jsonl"), "");
  EXPECT_FALSE(read_trials(dir.path()).at(0).timelines_at.has_value());
}

TEST(Timelines, OfNoTrialAreCutOffBeforeOthersFollow) {
  const TemporaryDirectory dir;
  TrialLog(dir.path()).append(sample_trial(0));
  const std::string whole = slurp(dir / "timelines.jsonl");
  spill(dir / "timelines.jsonl", whole + "{\"schema\": \"gradsync.timelines/1\", \"ra");
  TrialLog(dir.path()).append(sample_trial(1));
  EXPECT_EQ(slurp(dir / "timelines.jsonl"), whole + whole);
  EXPECT_EQ(timelines_of(read_trials(dir.path()).at(1)), timelines_of(sample_trial(1)));
}

TEST(Timelines, LeaveWithATrialThatCannotBeWritten) {
  const TemporaryDirectory dir;
  TrialLog log(dir.path());
  for (int launch = 0; launch < 3; ++launch) log.append(sample_trial(launch));
  const std::string trials = slurp(dir / "trials.jsonl");
  const std::string timelines = slurp(dir / "timelines.jsonl");
  ASSERT_LT(timelines.size() * 4 / 3, trials.size()) << "it is the trial that does not fit";
  {
    const FileSizeLimit limit(trials.size() + 100);
    EXPECT_THROW(log.append(sample_trial(3)), ResultsError);
  }
  EXPECT_EQ(slurp(dir / "trials.jsonl"), trials);
  EXPECT_EQ(slurp(dir / "timelines.jsonl"), timelines);
}

TEST(Timelines, ThatWereNotKeptAreSaidToBeMissing) {
  const TemporaryDirectory dir;
  {
    TrialLog log(dir.path());
    for (int launch = 0; launch < 3; ++launch) log.append(sample_trial(launch));
  }
  const std::string whole = slurp(dir / "timelines.jsonl");
  spill(dir / "timelines.jsonl", whole.substr(0, whole.size() - 1));
  std::string warning;
  auto trials = read_trials(dir.path(), &warning);
  EXPECT_EQ(warning, "") << "of the last one it is the memory that is cut";
  EXPECT_EQ(memory_of(dir.path(), trials.at(2)), json());
  spill(dir / "timelines.jsonl", whole.substr(0, whole.size() / 2));
  read_trials(dir.path(), &warning);
  EXPECT_THAT(warning, AllOf(HasSubstr("timelines.jsonl"), HasSubstr("of 2 of 3 trials")));
  std::filesystem::remove(dir / "timelines.jsonl");
  trials = read_trials(dir.path(), &warning);
  EXPECT_THAT(warning, HasSubstr("of 3 of 3 trials"));
  EXPECT_THAT(trials.at(0).ranks[0].timeline_events, IsEmpty());
  EXPECT_EQ(trials.at(0).step_s, sample_trial().step_s);
}

TEST(Timelines, ThatAreNoneAreNamedByTheirPlace) {
  const TemporaryDirectory dir;
  TrialLog(dir.path()).append(sample_trial());
  std::string text = slurp(dir / "timelines.jsonl");
  text.replace(text.find("gradsync.timelines/1"), 8, "somebody");
  spill(dir / "timelines.jsonl", text);
  try {
    read_trials(dir.path());
    FAIL() << "read";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("timelines.jsonl: bytes 0 to "),
                                    HasSubstr("'schema'"), HasSubstr("somebody")));
  }
}

TEST(Timelines, OfEarlierVersionsAreInTheTrial) {
  const TemporaryDirectory dir;
  spill(dir / "trials.jsonl", json(sample_trial()).dump() + "\n");
  std::string warning;
  const TrialRecord trial = read_trials(dir.path(), &warning).at(0);
  EXPECT_EQ(warning, "");
  EXPECT_EQ(timelines_of(trial), timelines_of(sample_trial()));
  EXPECT_EQ(memory_of(dir.path(), trial), json(sample_trial().ranks[0])["memory_timeline"]);
}

}  // namespace
}  // namespace gradsync::results
