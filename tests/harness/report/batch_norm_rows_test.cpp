// Rows about batch normalization: how far ranks' statistics are apart, what agreeing costs.
// Covers: running_statistics.cpp.
#include <gmock/gmock.h>

#include <cmath>

#include "harness/report/formats.h"
#include "harness/summary/build_result.h"
#include "harness/summary/rank_summary.h"
#include "tests/harness/results/sample_run.h"

namespace gradsync::report {
namespace {

using nlohmann::json;
using results::RunningStatistics;
using results::TrialRecord;
using test::sample_cell;
using test::sample_trial;
using ::testing::HasSubstr;
using ::testing::Not;

// Two channels on two ranks; the trial's own times do not matter.
TrialRecord trial_with(const RunningStatistics& rank_0, const RunningStatistics& rank_1) {
  TrialRecord trial = sample_trial("", sample_cell("1x2", "no_sync", "convnet"), 0, {1.0});
  trial.ranks[0].running_statistics = rank_0;
  trial.ranks[1].running_statistics = rank_1;
  return trial;
}

TEST(StatisticsSpread, IsThatOfTheWidestChannel) {
  // Means 1 and 4 where the variances are 1 and 8: 3 / sqrt(4.5). Equal means, variances 2 and 6.
  const auto spread = summary::statistics_spread(trial_with({{1, 5}, {1, 2}}, {{4, 5}, {8, 6}}));
  ASSERT_TRUE(spread.has_value());
  EXPECT_NEAR(spread->mean_gap, 3 / std::sqrt(4.5), 1e-5);
  EXPECT_NEAR(spread->variance_ratio, 8, 1e-3);
}

TEST(StatisticsSpread, OfRanksThatAgreeIsNone) {
  const auto spread = summary::statistics_spread(trial_with({{1, 5}, {0, 2}}, {{1, 5}, {0, 2}}));
  ASSERT_TRUE(spread.has_value());
  EXPECT_EQ(spread->mean_gap, 0);
  EXPECT_EQ(spread->variance_ratio, 1);
}

TEST(StatisticsSpread, NeedsTwoRanksWithFiniteNumbers) {
  TrialRecord one = trial_with({{1}, {1}}, {{1}, {1}});
  one.ranks[1].running_statistics.reset();
  EXPECT_FALSE(summary::statistics_spread(one).has_value());
  EXPECT_FALSE(summary::statistics_spread(trial_with({{NAN}, {1}}, {{1}, {1}})).has_value());
  EXPECT_FALSE(summary::statistics_spread(trial_with({{1, 2}, {1, 1}}, {{1}, {1}})).has_value());
}

// Two rounds of the same cell without SyncBatchNorm and with it, which takes half as long again.
std::vector<TrialRecord> local_and_synchronized() {
  std::vector<TrialRecord> trials;
  for (const bool synchronized : {false, true}) {
    for (int launch = 0; launch < 2; ++launch) {
      TrialRecord trial = trial_with({{0, 0}, {1, 1}}, {{synchronized ? 0.0 : 2.0, 0}, {1, 1}});
      trial.cell = trial.cell.with("sync_batch_norm", synchronized);
      if (synchronized) {
        trial.ledger.per_step["batch_norm_all_gather"] = {12, 1200};
      }
      trial.launch = launch;
      trial.order = static_cast<int>(trials.size());
      test::stretch(trial, (launch + 1) * (synchronized ? 1.5 : 1.0));
      trials.push_back(trial);
    }
  }
  return trials;
}

results::Result batch_norm_result(const std::vector<TrialRecord>& trials) {
  return summary::build_result(test::sample_context(), json::object(), trials);
}

TEST(BatchNormRows, SayHowFarRanksAreApartAndWhatAgreeingCosts) {
  const json cells = json(batch_norm_result(local_and_synchronized()))["cells"];
  ASSERT_EQ(cells.size(), 2U);
  const json& local = cells[0];
  const json& synchronized = cells[1];
  EXPECT_NEAR(local["running_statistics"]["mean_gap"].get<double>(), 2, 1e-4);
  EXPECT_EQ(synchronized["running_statistics"]["mean_gap"], 0.0);
  EXPECT_FALSE(local.contains("vs_local_statistics"));
  EXPECT_NEAR(synchronized["vs_local_statistics"]["ratio"].get<double>(), 1.5, 1e-12);
  EXPECT_EQ(synchronized["vs_local_statistics"]["pairs"], 2);
}

// Also where one of its values is not written.
TEST(BatchNormRows, ComeInThePlansOrder) {
  const auto trials = local_and_synchronized();
  for (const bool first : {false, true}) {
    const json plan = {{"cells", {{"sync_batch_norm", {first, !first}}}}};
    const auto result = summary::build_result(test::sample_context(), plan, trials);
    EXPECT_EQ(result.cells.at(0).cell.sync_batch_norm(), first);
  }
}

TEST(BatchNormRows, OfTheTrialInWhichRanksWereFarthestApart) {
  std::vector<TrialRecord> trials{trial_with({{0}, {1}}, {{3}, {1}}),
                                  trial_with({{0}, {1}}, {{1}, {5}})};
  trials[1].launch = 1;
  const json cell = json(batch_norm_result(trials))["cells"][0];
  EXPECT_NEAR(cell["running_statistics"]["mean_gap"].get<double>(), 3, 1e-4);
  EXPECT_NEAR(cell["running_statistics"]["variance_ratio"].get<double>(), 5, 1e-3);
}

TEST(BatchNormRows, WithoutALocalCellThereIsAReason) {
  std::vector<TrialRecord> trials = local_and_synchronized();
  std::erase_if(trials, [](const auto& trial) { return !trial.cell.sync_batch_norm(); });
  const json cell = json(batch_norm_result(trials))["cells"][0];
  EXPECT_TRUE(cell["vs_local_statistics"].is_null());
  EXPECT_EQ(cell["null_reasons"]["vs_local_statistics"],
            "the plan has no such cell with sync_batch_norm false");
}

TEST(BatchNormRows, HaveColumnsOfTheirOwn) {
  const std::string page = result_markdown(batch_norm_result(local_and_synchronized()), {}, {});
  EXPECT_THAT(page, HasSubstr("| batch_norm_all_gather |"));
  EXPECT_THAT(page, HasSubstr("vs local"));
  EXPECT_THAT(page, HasSubstr("1.50x"));
  EXPECT_THAT(page, HasSubstr("means apart"));
  EXPECT_THAT(page, HasSubstr("2.00 sd"));
  EXPECT_THAT(page, HasSubstr("| false           |"));  // not written in the cell, and shown
  EXPECT_THAT(page, Not(HasSubstr("null")));
}

TEST(BatchNormRows, OtherTablesHaveNoneOfIt) {
  const auto run = test::sample_run();
  const std::string page =
      result_markdown(summary::build_result(run.context, run.plan, run.trials), {}, {});
  EXPECT_THAT(page, Not(HasSubstr("means apart")));
  EXPECT_THAT(page, Not(HasSubstr("vs local")));
}

}  // namespace
}  // namespace gradsync::report
