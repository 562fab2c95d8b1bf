// Covers: claim_findings.cpp.
#include "harness/summary/guide_claims.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "harness/summary/build_result.h"
#include "tests/harness/report/golden.h"
#include "tests/harness/results/sample_run.h"
#include "tests/paths.h"

namespace gradsync::summary {
namespace {

using nlohmann::json;
using results::Result;
using results::TrialRecord;
using test::sample_cell;
using test::sample_trial;
using ::testing::HasSubstr;

// How many times as long as no_sync each strategy takes, and by how much launches differ in that.
struct Steps {
  double factor = 1;
  double wobble = 0.001;
};
using StepsOf = std::map<std::string, Steps>;

void add_trials(std::vector<TrialRecord>& trials, const std::string& topology, const StepsOf& steps,
                int launches) {
  for (int launch = 0; launch < launches; ++launch) {
    for (const auto& [strategy, of] : steps) {
      const double step_s = of.factor * (1 + of.wobble * (launch - (launches - 1) / 2.0));
      trials.push_back(sample_trial("", sample_cell(topology, strategy), launch, {step_s}));
    }
  }
}

Result built_from(const std::vector<TrialRecord>& trials) {
  return build_result(test::sample_context(), json::object(), trials);
}

Result one_setting(const StepsOf& steps, int launches = 4) {
  std::vector<TrialRecord> trials;
  add_trials(trials, "2x1_1gbit", steps, launches);
  return built_from(trials);
}

GuideClaim claim_in(const Result& result, GuideStatement statement) {
  const auto claims = guide_claims(parts_of(result));
  return *std::ranges::find(claims, statement, &GuideClaim::statement);
}

GuideVerdict verdict_in(const Result& result, GuideStatement statement) {
  return claim_in(result, statement).verdict;
}

constexpr auto kCosts = GuideStatement::EveryMicroBatchCosts;
constexpr auto kImproper = GuideStatement::ImproperSavesNothing;
constexpr auto kAccumulate = GuideStatement::AccumulateDoesAsWell;
constexpr auto kNodes = GuideStatement::CostsMoreBetweenNodes;
constexpr auto kMemory = GuideStatement::NoSyncRunsOutOfMemory;

TEST(GuideClaims, ThatItCosts) {
  const StepsOf twice{{"baseline", {2.0}}, {"no_sync", {}}};
  const GuideClaim claim = claim_in(one_setting(twice), kCosts);
  EXPECT_EQ(claim.verdict, GuideVerdict::Holds);
  ASSERT_EQ(claim.evidence.size(), 1U);
  test::expect_phrases("summary", {claim.evidence[0].sentence});
  EXPECT_NEAR(claim.evidence[0].effect->ratio, 2, 1e-9);
  EXPECT_THAT(claim.evidence[0].place, HasSubstr("2 nodes x 1 rank"));

  EXPECT_EQ(verdict_in(one_setting({{"baseline", {1.0}}, {"no_sync", {}}}), kCosts),
            GuideVerdict::DoesNotHold);
  EXPECT_EQ(verdict_in(one_setting({{"baseline", {1.05, 0.05}}, {"no_sync", {}}}), kCosts),
            GuideVerdict::Undecided);
}

TEST(GuideClaims, WithoutAnIntervalTimesAreUndecided) {
  const StepsOf clear{
      {"baseline", {2.0}}, {"no_sync_improper", {2.0}}, {"no_sync", {}}, {"accumulate", {}}};
  for (const int launches : {1, 2}) {
    for (const GuideStatement statement : {kCosts, kImproper, kAccumulate}) {
      const GuideClaim claim = claim_in(one_setting(clear, launches), statement);
      EXPECT_EQ(claim.verdict, GuideVerdict::Undecided) << launches;
      EXPECT_THAT(claim.summary, HasSubstr("no interval"));
    }
  }
  EXPECT_EQ(verdict_in(one_setting(clear, 3), kCosts), GuideVerdict::Holds);
}

TEST(GuideClaims, ThatAMisplacedNoSyncSavesNothing) {
  const auto verdict = [](const Steps& improper) {
    return verdict_in(
        one_setting({{"baseline", {2.0}}, {"no_sync_improper", improper}, {"no_sync", {}}}),
        kImproper);
  };
  EXPECT_EQ(verdict({2.0}), GuideVerdict::Holds);
  EXPECT_EQ(verdict({2.2}), GuideVerdict::Holds);  // slower saves nothing either
  EXPECT_EQ(verdict({1.5}), GuideVerdict::DoesNotHold);
  EXPECT_EQ(verdict({1.95, 0.05}), GuideVerdict::Undecided);
}

// Bytes are exact: whatever the times say, it saved something.
TEST(GuideClaims, AMisplacedNoSyncThatMovesLessDoesSave) {
  Result result = one_setting({{"baseline", {2.0}}, {"no_sync_improper", {2.0}}, {"no_sync", {}}});
  for (results::CellResult& cell : result.cells) {
    const std::int64_t count = cell.cell.strategy() == "no_sync_improper" ? 1 : 4;
    cell.collectives_per_step = results::OpCounts{{"all_reduce", {count, 1000 * count}}};
  }
  const GuideClaim claim = claim_in(result, kImproper);
  EXPECT_EQ(claim.verdict, GuideVerdict::DoesNotHold);
  test::expect_phrases("summary", {claim.evidence[0].sentence});
}

TEST(GuideClaims, ThatAccumulateDoesAsWell) {
  const auto verdict = [](const Steps& accumulate) {
    return verdict_in(one_setting({{"no_sync", {}}, {"accumulate", accumulate}}), kAccumulate);
  };
  EXPECT_EQ(verdict({1.01}), GuideVerdict::Holds);
  EXPECT_EQ(verdict({1.10}), GuideVerdict::DoesNotHold);
  EXPECT_EQ(verdict({1.03, 0.005}), GuideVerdict::Undecided);  // across the margin
  EXPECT_EQ(verdict({1.0, 0.05}), GuideVerdict::Undecided);    // wide
}

TEST(GuideClaims, ThatItCostsMoreBetweenNodes) {
  const auto verdict = [](const Steps& within, const Steps& between) {
    std::vector<TrialRecord> trials;
    add_trials(trials, "1x2", {{"baseline", within}, {"no_sync", {}}}, 4);
    add_trials(trials, "2x1_1gbit", {{"baseline", between}, {"no_sync", {}}}, 4);
    return claim_in(built_from(trials), kNodes);
  };
  const GuideClaim more = verdict({1.2}, {2.2});
  EXPECT_EQ(more.verdict, GuideVerdict::Holds);
  test::expect_phrases("summary", {more.evidence[0].sentence});
  EXPECT_EQ(verdict({2.2}, {1.2}).verdict, GuideVerdict::DoesNotHold);
  EXPECT_EQ(verdict({1.2, 0.05}, {1.25, 0.05}).verdict, GuideVerdict::Undecided);
  EXPECT_EQ(verdict_in(one_setting({{"baseline", {2.2}}, {"no_sync", {}}}), kNodes),
            GuideVerdict::NotMeasured);
}

// A setting that says otherwise is enough against a claim about times, and one that cannot say
// keeps it open.
TEST(GuideClaims, OfSeveralSettingsTheWorstCounts) {
  const auto claim = [](const Steps& one, const Steps& other) {
    std::vector<TrialRecord> trials;
    add_trials(trials, "1x2", {{"baseline", one}, {"no_sync", {}}}, 4);
    add_trials(trials, "2x1_1gbit", {{"baseline", other}, {"no_sync", {}}}, 4);
    return claim_in(built_from(trials), kCosts);
  };
  EXPECT_EQ(claim({2.0}, {2.0}).verdict, GuideVerdict::Holds);
  EXPECT_EQ(claim({2.0}, {1.0}).verdict, GuideVerdict::DoesNotHold);
  const GuideClaim open = claim({2.0}, {1.05, 0.05});
  EXPECT_EQ(open.verdict, GuideVerdict::Undecided);
  test::expect_phrases("summary", {open.summary});
}

TEST(GuideClaims, ThatNoSyncRunsOutOfMemory) {
  const auto run = test::sample_memory_run();
  const Result result = build_result(run.context, run.plan, run.trials);
  const GuideClaim claim = claim_in(result, kMemory);
  EXPECT_EQ(claim.verdict, GuideVerdict::Holds);
  std::vector<std::string> said;
  for (const GuideEvidence& evidence : claim.evidence) {
    EXPECT_EQ(evidence.part, "budget");
    said.push_back(evidence.sentence);
  }
  test::expect_phrases("summary", said);

  Result enough = result;  // the same in a budget that is never spent
  Result both = result;
  for (results::CellResult& cell : enough.cells) cell.status = results::Status::Ok;
  for (results::CellResult& cell : both.cells) {
    if (cell.cell.memory_budget_bytes()) cell.status = results::Status::Oom;
  }
  EXPECT_EQ(verdict_in(enough, kMemory), GuideVerdict::DoesNotHold);
  EXPECT_EQ(verdict_in(both, kMemory), GuideVerdict::DoesNotHold);

  Result failed = result;
  for (results::CellResult& cell : failed.cells) {
    if (cell.cell.strategy() == "sync_each_batch") cell.status = results::Status::Failed;
  }
  EXPECT_EQ(verdict_in(failed, kMemory), GuideVerdict::Undecided);
}

TEST(GuideClaims, WithoutABudgetNothingRunsOut) {
  const auto run = test::sample_memory_run();
  Result result = build_result(run.context, run.plan, run.trials);
  std::erase_if(result.cells, [](const auto& cell) { return cell.part == "budget"; });
  const GuideClaim claim = claim_in(result, kMemory);
  EXPECT_EQ(claim.verdict, GuideVerdict::NotMeasured);
  test::expect_phrases("summary", {claim.summary});
}

TEST(GuideClaims, AStepOfOneMicroBatchSaysNothing) {
  Result result = one_setting({{"baseline", {2.0}}, {"no_sync", {}}});
  for (results::CellResult& cell : result.cells) {
    cell.cell = cell.cell.with("accumulation_steps", 1);
  }
  EXPECT_EQ(verdict_in(result, kCosts), GuideVerdict::NotMeasured);
}

TEST(GuideClaims, ARowThatFailedSaysSo) {
  Result result = one_setting({{"baseline", {2.0}}, {"no_sync", {}}});
  for (results::CellResult& cell : result.cells) {
    if (cell.cell.strategy() != "baseline") continue;
    cell.status = results::Status::Failed;
    cell.reason = "rank 1 died";
  }
  const GuideClaim claim = claim_in(result, kCosts);
  EXPECT_EQ(claim.verdict, GuideVerdict::Undecided);
  test::expect_phrases("summary", {claim.summary});
}

TEST(GuideClaims, ThePlansThatMeasureThemExist) {
  for (const GuideClaim& claim : guide_claims(parts_of(built_from({})))) {
    EXPECT_EQ(claim.verdict, GuideVerdict::NotMeasured);
    for (const std::string& plan : claim.measured_by) {
      EXPECT_TRUE(
          std::filesystem::exists(test::path_of("source") + "/benchmarks/plans/" + plan + ".json"))
          << plan;
    }
  }
}

TEST(GuideClaims, VerdictsInWords) {
  EXPECT_EQ(to_string(GuideVerdict::Holds), "holds here");
  EXPECT_EQ(to_string(GuideVerdict::DoesNotHold), "does not hold here");
  EXPECT_EQ(to_string(GuideVerdict::Undecided), "undecided");
  EXPECT_EQ(to_string(GuideVerdict::NotMeasured), "not measured here");
}

}  // namespace
}  // namespace gradsync::summary
