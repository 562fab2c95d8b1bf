// How long ranks stand idle, from schedules worked by hand: what pipelining should give, and what
// its records say.
// Covers: detail_table.cpp.
#include "harness/summary/rank_summary.h"

#include <gmock/gmock.h>

#include <limits>

#include "harness/report/tables.h"
#include "harness/summary/build_result.h"
#include "tests/harness/results/sample_run.h"

namespace gradsync::summary {
namespace {

using results::RankRecord;
using results::TrialRecord;
using ::testing::DoubleEq;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

RankRecord rank_of(int rank, const std::vector<double>& step_s, const std::vector<double>& wait_s) {
  RankRecord record;
  record.rank = rank;
  record.step_s = step_s;
  for (std::size_t i = 0; i < step_s.size(); ++i) {
    record.phase_s["forward"].push_back(step_s[i] - wait_s[i]);
  }
  record.phase_s["wait"] = wait_s;
  return record;
}

// One step of two equal stages as the clock would record it: forward 1 s of each stage, backward
// 2 s, m micro-batches.
TrialRecord step_of_stages(int micro_batches, bool pipelined) {
  const double work_s = 3.0 * micro_batches;
  // One after the other, the peer's work is all waited for; pipelined, that of one micro-batch.
  const double wait_s = pipelined ? 3 : work_s;
  TrialRecord trial;
  for (int rank = 0; rank < 2; ++rank) {
    trial.ranks.push_back(rank_of(rank, {work_s + wait_s}, {wait_s}));
  }
  return trial;
}

TEST(IdleShare, OfStagesOneAfterTheOtherIsAHalf) {
  for (const int micro_batches : {1, 4, 8}) {
    const TrialRecord trial = step_of_stages(micro_batches, false);
    EXPECT_THAT(idle_share_by_rank({&trial}), ElementsAre(DoubleEq(0.5), DoubleEq(0.5)));
  }
}

TEST(IdleShare, OfPipelinedStagesFallsWithTheMicroBatches) {
  for (const int micro_batches : {1, 4, 8}) {
    const TrialRecord trial = step_of_stages(micro_batches, true);
    const double theory = 1.0 / (micro_batches + 1);
    EXPECT_THAT(idle_share_by_rank({&trial}), ElementsAre(DoubleEq(theory), DoubleEq(theory)));
  }
}

TEST(IdleShare, IsOfAllStepsOfAllTrialsTogether) {
  TrialRecord first;
  first.ranks = {rank_of(0, {1.0, 3.0}, {0.5, 0.5}), rank_of(1, {4.0}, {1.0})};
  TrialRecord second;
  second.ranks = {rank_of(0, {4.0}, {0.0})};
  EXPECT_THAT(idle_share_by_rank({&first, &second}),
              ElementsAre(DoubleEq(0.125), DoubleEq(0.25)));  // 1 of 8 s, 1 of 4 s
}

TEST(IdleShare, OfUnknownPhasesIsUnknown) {
  TrialRecord trial;
  trial.ranks = {rank_of(0, {1.0}, {0.5})};
  trial.ranks[0].phase_s.erase("wait");
  EXPECT_THAT(idle_share_by_rank({&trial}), IsEmpty());
  trial.ranks = {rank_of(0, {std::numeric_limits<double>::quiet_NaN()}, {0.5})};
  EXPECT_THAT(idle_share_by_rank({&trial}), IsEmpty());
  EXPECT_THAT(idle_share_by_rank({}), IsEmpty());
}

TrialRecord drifting(const std::vector<double>& of_rank_one) {
  TrialRecord trial;
  trial.ranks.resize(2);
  trial.ranks[0].parameter_distance.assign(of_rank_one.size(), 0);
  trial.ranks[1].parameter_distance = of_rank_one;
  return trial;
}

TEST(ParameterDistance, IsTheLargestOfAnyRankInAnyTrialStepByStep) {
  const TrialRecord first = drifting({0.1, 0.2});
  const TrialRecord second = drifting({0.05, 0.3});
  EXPECT_THAT(largest_parameter_distance({&first, &second}), ElementsAre(0.1, 0.3));
  EXPECT_THAT(largest_parameter_distance({&first, &second}), Not(IsEmpty()));
  const TrialRecord unmeasured = drifting({});
  EXPECT_THAT(largest_parameter_distance({&unmeasured}), IsEmpty());
}

// The page and the data of one cell whose ranks wait and drift.
struct Page {
  nlohmann::json cell;
  std::string table;
};

Page page_of(const std::string& wrapper, const std::vector<double>& distance) {
  nlohmann::json cell = test::sample_cell("1x2", "baseline");
  cell["wrapper"] = wrapper;
  TrialRecord trial = test::sample_trial("", cell, 0, {1.0, 1.0});
  trial.ranks = {rank_of(0, {1.0, 1.0}, {0.25, 0.25}), rank_of(1, {1.0, 1.0}, {0.5, 0.25})};
  trial.ranks[1].parameter_distance = distance;
  const auto result = build_result(test::sample_context(), nlohmann::json::object(), {trial});
  return {nlohmann::json(result)["cells"][0],
          text::to_markdown(report::detail_table(parts_of(result).front()))};
}

TEST(RankSummary, IsInTheDataOfACellAndInTheTablesThatAskForIt) {
  const Page local = page_of("local", {1e-6, 3.14e-5});
  EXPECT_THAT(local.cell["idle_share"]["mean"].get<double>(), DoubleNear(0.3125, 1e-12));
  EXPECT_EQ(local.cell["idle_share"]["by_rank"], nlohmann::json({0.25, 0.375}));
  EXPECT_EQ(local.cell["parameter_distance"]["last"], 3.14e-5);
  EXPECT_THAT(local.table, HasSubstr("31.2 %"));
  EXPECT_THAT(local.table, HasSubstr("3.1e-05"));
  EXPECT_THAT(local.table, HasSubstr("2 steps from a common start"));

  const Page alike = page_of("by_hand", {0, 0});
  EXPECT_THAT(alike.table, HasSubstr("|        0 |"));

  const Page engine = page_of("ddp", {});
  EXPECT_TRUE(engine.cell["parameter_distance"].is_null());
  EXPECT_EQ(engine.cell["null_reasons"]["parameter_distance"], "not measured");
  EXPECT_THAT(engine.table, Not(HasSubstr("idle")));
  EXPECT_THAT(engine.table, Not(HasSubstr("distance")));
}

}  // namespace
}  // namespace gradsync::summary
