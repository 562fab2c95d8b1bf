#include "harness/gate/against.h"

#include <gmock/gmock.h>

#include <utility>

#include "harness/base/errors.h"
#include "harness/stats/random.h"
#include "harness/summary/build_result.h"
#include "tests/harness/report/golden.h"
#include "tests/harness/results/sample_run.h"

namespace gradsync::gate {
namespace {

using nlohmann::json;
using results::RankRecord;
using results::TrialRecord;
using test::sample_run;
using test::SampleRun;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Settings kSettings;

// In eight launches: those of the sample twice, which are enough to pass what is the same.
SampleRun your_machine() {
  SampleRun run = sample_run();
  std::erase_if(run.trials, [](const TrialRecord& trial) { return trial.part != "your_machine"; });
  const std::vector<TrialRecord> once = run.trials;
  for (TrialRecord trial : once) {
    trial.launch += 4;
    trial.order += static_cast<int>(once.size());
    run.trials.push_back(std::move(trial));
  }
  run.context["cpu_model"] = "Processor P";
  return run;
}

summary::FinishedRun finished(const SampleRun& run, const std::string& directory) {
  return {directory, summary::build_result(run.context, run.plan, run.trials), run.trials};
}

GateReport judged(const SampleRun& candidate, const AgainstOptions& options = {}) {
  return judge_against(finished(your_machine(), "stored"), finished(candidate, "new"), kSettings,
                       options);
}

template <typename Change>
SampleRun changed(const std::string& topology, const std::string& strategy, Change change) {
  SampleRun run = your_machine();
  for (TrialRecord& trial : run.trials) {
    if (trial.cell.topology() == topology && trial.cell.strategy() == strategy) change(trial);
  }
  return run;
}

SampleRun slower(double by) {
  return changed("2x1_1gbit", "no_sync",
                 [by](TrialRecord& trial) { test::stretch(trial, 1 + by); });
}

const RowReport& row_of(const GateReport& report, const std::string& topology,
                        const std::string& strategy) {
  for (const RowReport& row : report.rows) {
    if (row.row.cell.topology() == topology && row.row.cell.strategy() == strategy) return row;
  }
  ADD_FAILURE() << "no row of " << topology << ", " << strategy;
  return report.rows.front();
}

// The kind of the first difference of a row's counts; "" where there is none.
std::string first_kind(const RowReport& row) {
  return row.counts->differences.empty() ? "" : row.counts->differences.front().what;
}

std::vector<Verdict> verdicts(const GateReport& report) {
  std::vector<Verdict> all;
  for (const RowReport& row : report.rows) all.push_back(verdict_of(row));
  return all;
}

TEST(Against, TheSameRunPasses) {
  const GateReport report = judged(your_machine());
  EXPECT_EQ(report.rows.size(), 8U);
  EXPECT_THAT(verdicts(report), Each(Verdict::Pass));
  EXPECT_EQ(verdict_of(report), Verdict::Pass);
  ASSERT_EQ(report.notes.size(), 1U) << "that the runs did not take turns";
  test::expect_phrases("gate", report.notes);
  EXPECT_EQ(report.baseline.name, "stored");
  EXPECT_EQ(report.candidate.name, "new");
  EXPECT_EQ(report.rows.front().starts, 8);
}

TEST(Against, AnIntervalAboveTheMarginIsARegression) {
  const GateReport report = judged(slower(0.04));
  const RowReport& row = row_of(report, "2x1_1gbit", "no_sync");
  EXPECT_EQ(verdict_of(row), Verdict::Regression);
  EXPECT_EQ(row.times->grounds.reason, RowReason::IntervalAbove);
  EXPECT_NEAR(row.times->grounds.at_level->value, 0.04, 0.001);
  EXPECT_EQ(verdict_of(row_of(report, "1x2", "no_sync")), Verdict::Pass);
  EXPECT_EQ(verdict_of(report), Verdict::Regression);
}

TEST(Against, AnIntervalFromTheMarginToTheSmallestEffectIsUndecided) {
  const Settings settings{.smallest_effect = 0.02};
  const GateReport report =
      judge_against(finished(your_machine(), "a"), finished(slower(0.015), "b"), settings);
  const RowReport& row = row_of(report, "2x1_1gbit", "no_sync");
  EXPECT_EQ(verdict_of(row), Verdict::Undecided);
  EXPECT_EQ(row.times->grounds.reason, RowReason::IntervalAcross);
  EXPECT_NEAR(row.times->grounds.at_level->value, 0.015, 0.001);
  EXPECT_DOUBLE_EQ(row.times->grounds.level, 1 - 0.01 / 8);
  EXPECT_GT(*row.times->smallest_visible, row.times->measures[Measure::Mean].effect->ci95->hi);
  EXPECT_EQ(verdict_of(row_of(report, "1x2", "no_sync")), Verdict::Pass);
}

TEST(Against, FasterPasses) {
  EXPECT_EQ(verdict_of(judged(slower(-0.2))), Verdict::Pass);
}

TEST(Against, CountsFailWhateverTheTimes) {
  const GateReport report = judged(changed("1x2", "baseline", [](TrialRecord& trial) {
    for (RankRecord& rank : trial.ranks) {
      rank.timeline_events.push_back({"all_reduce", 4, 3, 14, 0.1, 0.2});
    }
  }));
  const RowReport& row = row_of(report, "1x2", "baseline");
  EXPECT_EQ(verdict_of(row), Verdict::Regression);
  EXPECT_EQ(row.times->verdict, Verdict::Pass);
  EXPECT_EQ(first_kind(row), "events");
}

TEST(Against, AnotherMachineIsRefusedItsTimesAndKeepsItsCounts) {
  SampleRun other = your_machine();
  other.context["cpu_model"] = "Processor Q";
  const GateReport report = judged(other);
  EXPECT_THAT(verdicts(report), Each(Verdict::Undecided));
  for (const RowReport& row : report.rows) {
    EXPECT_EQ(row.times->grounds.reason, RowReason::Given);
    EXPECT_THAT(row.times->reason, HasSubstr("cpu_model"));
    EXPECT_FALSE(row.times->measures[Measure::Mean].effect);
    EXPECT_THAT(row.counts->differences, IsEmpty());
  }
  EXPECT_THAT(report.notes, IsEmpty());
  EXPECT_EQ(report.differences.at(0).field, "cpu_model");

  const GateReport counts_only = judged(other, {.rows = {}, .times = false});
  EXPECT_THAT(verdicts(counts_only), Each(Verdict::Pass));
  EXPECT_NE(counts_only.rows.front().no_times_because, "");
}

TEST(Against, WhereNeitherRunHasTimesCountsDecide) {
  SampleRun untimed = your_machine();
  for (TrialRecord& trial : untimed.trials) {
    trial.model_info->refuse_times("4 compute threads share 2 cores");
  }
  const GateReport report =
      judge_against(finished(untimed, "a"), finished(untimed, "b"), kSettings);
  EXPECT_THAT(verdicts(report), Each(Verdict::Pass));
  EXPECT_FALSE(report.rows.front().times);
  test::expect_phrases("gate", {report.rows.front().no_times_because});
  const GateReport one_sided = judged(untimed);
  EXPECT_THAT(verdicts(one_sided), Each(Verdict::Undecided));
  EXPECT_EQ(one_sided.rows.front().times->reason, "B: 4 compute threads share 2 cores");
}

SampleRun with_launches(SampleRun run, int launches) {
  std::erase_if(run.trials, [&](const TrialRecord& trial) { return trial.launch >= launches; });
  return run;
}

TEST(Against, FewerThanFourLaunchesOfASideDecideNothing) {
  const summary::FinishedRun enough = finished(your_machine(), "a");
  for (const int launches : {1, 2, 3}) {
    const summary::FinishedRun fewer = finished(with_launches(slower(0.5), launches), "b");
    for (const GateReport& report :
         {judge_against(enough, fewer, kSettings), judge_against(fewer, enough, kSettings)}) {
      EXPECT_THAT(verdicts(report), Each(Verdict::Undecided)) << launches;
      EXPECT_EQ(report.rows.front().times->grounds.reason, RowReason::TooFewLaunches);
    }
  }
}

// A normal value, by the central limit of twelve.
double normal(stats::Random& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += static_cast<double>(random.below(1U << 20)) / (1U << 20);
  return sum;
}

// Every launch of a row is so much longer than in the sample, and by chance (1 %) longer or
// shorter.
SampleRun noisy(double by, stats::Random& random) {
  SampleRun run = your_machine();
  for (TrialRecord& trial : run.trials) {
    test::stretch(trial, (1 + by) * (1 + 0.01 * normal(random)));
  }
  return run;
}

TEST(Against, AllRowsTogetherAreFlaggedAtTheMarginWithProbabilityAlphaAtMost) {
  stats::Random random(42);
  constexpr int kRuns = 150;
  int flagged = 0;
  for (int i = 0; i < kRuns; ++i) {
    const GateReport report = judge_against(
        finished(noisy(0, random), "a"), finished(noisy(kSettings.margin, random), "b"), kSettings);
    flagged += verdict_of(report) == Verdict::Regression ? 1 : 0;
  }
  // A half of alpha lies above: 0.75 of 150. With intervals at 95 % it was one in six.
  EXPECT_LE(flagged, 4);
}

TEST(Against, RowsOfOneSideAreDifferences) {
  SampleRun fewer = your_machine();
  std::erase_if(fewer.trials,
                [](const TrialRecord& trial) { return trial.cell.strategy() == "accumulate"; });
  const GateReport lost = judged(fewer);
  EXPECT_EQ(lost.rows.size(), 8U);
  const RowReport& row = row_of(lost, "1x2", "accumulate");
  EXPECT_EQ(verdict_of(row), Verdict::Regression);
  EXPECT_EQ(first_kind(row), "row");
  const GateReport added =
      judge_against(finished(fewer, "a"), finished(your_machine(), "b"), kSettings);
  EXPECT_EQ(first_kind(row_of(added, "1x2", "accumulate")), "row");
}

TEST(Against, ACandidateThatFailsIsToBeRunOnceMore) {
  const GateReport failed = judged(changed("1x2", "no_sync", [](TrialRecord& trial) {
    if (trial.launch != 1) return;
    trial.status = results::Status::Timeout;
    trial.reason = "after 60 s";
    trial.step_s.clear();
    trial.ranks.clear();
  }));
  EXPECT_EQ(verdict_of(failed), Verdict::Regression);
  EXPECT_THAT(other_outcome(failed), HasSubstr("timeout (after 60 s)"));
  EXPECT_EQ(other_outcome(judged(slower(0.04))), "");
}

TEST(Against, FiltersPickRows) {
  const AgainstOptions options{.rows = {RowFilter("strategy=no_sync,topology=1x2")}};
  const GateReport report = judged(slower(0.04), options);
  ASSERT_EQ(report.rows.size(), 1U);
  EXPECT_EQ(verdict_of(report), Verdict::Pass);
  EXPECT_THROW(judged(slower(0.04), {.rows = {RowFilter("topology=4x4")}}), ConfigError);
}

}  // namespace
}  // namespace gradsync::gate
