#include "harness/gate/claims.h"

#include <gmock/gmock.h>

#include "harness/summary/build_result.h"
#include "tests/harness/report/golden.h"
#include "tests/harness/results/sample_run.h"

namespace gradsync::gate {
namespace {

using nlohmann::json;
using results::Status;
using results::TrialRecord;
using test::sample_cell;
using test::sample_context;
using test::sample_run;
using test::sample_trial;
using test::SampleRun;
using ::testing::ElementsAre;

summary::FinishedRun finished(const SampleRun& run) {
  return {"results/runs/sample", summary::build_result(run.context, run.plan, run.trials),
          run.trials};
}

// In the sample run on two nodes baseline / no_sync is about 2.00, on one about 1.10.
Claim claim_of(const std::string& above, const std::string& below, Claim::Kind kind, double limit,
               const json& where = {{"topology", "2x1_1gbit"}}) {
  Claim claim;
  claim.about = "a claim";
  claim.above = {{"strategy", above}};
  claim.below = {{"strategy", below}};
  claim.where = RowFilter::of(where, "where");
  claim.kind = kind;
  claim.limit = limit;
  return claim;
}

Claim at_least(double limit) {
  return claim_of("baseline", "no_sync", Claim::Kind::AtLeast, limit);
}

constexpr double kAlpha = 0.01;

ClaimOutcome outcome_of(const Claim& claim, const SampleRun& run = sample_run(),
                        double alpha = kAlpha) {
  const auto outcomes = evaluate_claims({claim}, finished(run), alpha);
  EXPECT_EQ(outcomes.size(), 1U);
  return outcomes.front();
}

// Launches with these ratios of baseline to no_sync, a round each.
SampleRun run_with_ratios(const std::vector<double>& ratios) {
  SampleRun run;
  run.context = sample_context();
  run.plan = json::object();
  for (const double ratio : ratios) {
    const int launch = static_cast<int>(run.trials.size() / 2);
    run.trials.push_back(
        sample_trial("", sample_cell("2x1_1gbit", "baseline"), launch, {ratio, ratio}));
    run.trials.push_back(sample_trial("", sample_cell("2x1_1gbit", "no_sync"), launch, {1.0, 1.0}));
  }
  return run;
}

TEST(Claims, PassWhereTheWholeIntervalIsInside) {
  const ClaimOutcome outcome = outcome_of(at_least(1.5));
  EXPECT_EQ(outcome.verdict, Verdict::Pass);
  EXPECT_EQ(outcome.reason, "");
  EXPECT_EQ(outcome.name, "baseline / no_sync, 2x1_1gbit");
  EXPECT_NEAR(outcome.ratio->ratio, 2.0, 0.01);
  EXPECT_EQ(outcome.ratio->pairs, 4U);
  EXPECT_EQ(outcome.row.cell.strategy(), "baseline");
  EXPECT_EQ(outcome.over.cell.strategy(), "no_sync");
}

TEST(Claims, AreARegressionWhereTheWholeIntervalIsOutside) {
  for (const Claim& claim :
       {at_least(2.5), claim_of("baseline", "no_sync", Claim::Kind::AtMost, 1.5),
        claim_of("baseline", "no_sync", Claim::Kind::Within, 0.5),
        claim_of("no_sync", "baseline", Claim::Kind::Within, 0.4)}) {
    const ClaimOutcome outcome = outcome_of(claim);
    EXPECT_EQ(outcome.verdict, Verdict::Regression) << outcome.need;
    EXPECT_EQ(outcome.grounds.reason, ClaimReason::Outside);
    EXPECT_DOUBLE_EQ(outcome.grounds.level, 0.99);
  }
}

TEST(Claims, AtMostAndWithinPassInside) {
  EXPECT_EQ(outcome_of(claim_of("baseline", "no_sync", Claim::Kind::AtMost, 2.1)).verdict,
            Verdict::Pass);
  EXPECT_EQ(outcome_of(claim_of("accumulate", "no_sync", Claim::Kind::Within, 0.02)).verdict,
            Verdict::Pass);
}

TEST(Claims, AreUndecidedAcrossTheLimitAndSayWhatWouldDecide) {
  const SampleRun run = run_with_ratios({1.54, 1.55, 1.56, 1.57});
  const auto ratio = outcome_of(at_least(1.0), run).ratio;
  const double lo = ratio->ci95->lo;
  const double middle = ratio->ratio;
  ASSERT_LT(lo, middle);
  constexpr double kAlphaOfTheTable = 0.05;
  const auto judged = [&](double limit) {
    return outcome_of(at_least(limit), run, kAlphaOfTheTable);
  };
  const ClaimOutcome near_end = judged(lo + 0.01 * (middle - lo));
  EXPECT_EQ(near_end.verdict, Verdict::Undecided);
  EXPECT_EQ(near_end.grounds.reason, ClaimReason::Across);
  EXPECT_DOUBLE_EQ(near_end.grounds.level, 0.95);
  EXPECT_NEAR(near_end.grounds.at_level->lo, 1.53, 0.01);
  EXPECT_NEAR(near_end.grounds.at_level->hi, 1.58, 0.01);
  EXPECT_EQ(near_end.grounds.launches_needed, 5U);
  const ClaimOutcome further = judged(middle - 0.25 * (middle - lo));
  EXPECT_EQ(further.verdict, Verdict::Undecided);
  EXPECT_GE(further.grounds.launches_needed, 60U) << "16 times four, or a few more";
  EXPECT_LT(further.grounds.launches_needed, 70U);
  EXPECT_EQ(judged(middle).grounds.reason, ClaimReason::Across);
  EXPECT_EQ(judged(middle).grounds.launches_needed, std::nullopt);
  test::expect_phrases("gate",
                       {near_end.reason, judged(middle).reason, outcome_of(at_least(2.5)).reason});
}

TEST(Claims, ShareTheLevelOutOverAllPairsOfRows) {
  const SampleRun run = run_with_ratios({1.54, 1.55, 1.56, 1.57});
  const double lo = outcome_of(at_least(1.0), run).ratio->ci95->lo;
  const Claim claim = at_least(lo - 1e-6);
  EXPECT_EQ(outcome_of(claim, run, 0.05).verdict, Verdict::Pass) << "at 95 %";
  const auto two = evaluate_claims({claim, claim}, finished(run), 0.05);
  EXPECT_EQ(two[0].verdict, Verdict::Undecided) << "at 97.5 %";
  EXPECT_EQ(two[0].ratio->ci95->lo, lo) << "what is printed stays 95 %";
  Claim nowhere = claim;
  nowhere.above = {{"strategy", "sync_each_batch"}};
  EXPECT_EQ(evaluate_claims({claim, nowhere}, finished(run), 0.05)[0].verdict, Verdict::Pass)
      << "what no row is judged by takes no share";
}

TEST(Claims, FewerThanFourLaunchesDecideNothing) {
  const ClaimOutcome one = outcome_of(at_least(1.5), run_with_ratios({2.0}));
  EXPECT_EQ(one.verdict, Verdict::Undecided);
  EXPECT_EQ(one.grounds.reason, ClaimReason::TooFewLaunches);
  test::expect_phrases("gate", {one.reason});
  const ClaimOutcome three = outcome_of(at_least(1.5), run_with_ratios({2.0, 2.001, 1.999}));
  EXPECT_EQ(three.verdict, Verdict::Undecided);
  EXPECT_TRUE(three.ratio->ci95) << "printed all the same";
}

TEST(Claims, AreAboutEveryPairOfRowsTheyFit) {
  const auto outcomes =
      evaluate_claims({claim_of("baseline", "no_sync", Claim::Kind::AtLeast, 1.05, json::object())},
                      finished(sample_run()), kAlpha);
  std::vector<std::string> names;
  for (const ClaimOutcome& outcome : outcomes) {
    names.push_back(outcome.name);
    EXPECT_EQ(outcome.verdict, Verdict::Pass) << outcome.name;
  }
  EXPECT_THAT(names, ElementsAre("baseline / no_sync, your_machine, 1x2",
                                 "baseline / no_sync, your_machine, 2x1_1gbit",
                                 "baseline / no_sync, guides_machines, t4_1x2",
                                 "baseline / no_sync, guides_machines, t4_2x1"));
}

TEST(Claims, AreUnfitWhereNothingWasMeasured) {
  Claim claim = at_least(1.5);
  claim.above = {{"strategy", "sync_each_batch"}};
  const ClaimOutcome unmeasured = outcome_of(claim);
  EXPECT_EQ(unmeasured.verdict, Verdict::Unfit);
  EXPECT_EQ(unmeasured.grounds.reason, ClaimReason::NotMeasured);
  EXPECT_EQ(outcome_of(claim).name, "a claim");

  SampleRun failed = sample_run();
  for (TrialRecord& trial : failed.trials) {
    if (trial.cell.topology() != "2x1_1gbit" || trial.cell.strategy() != "baseline") continue;
    trial.status = Status::Timeout;
    trial.reason = "no progress";
  }
  const ClaimOutcome timeout = outcome_of(at_least(1.5), failed);
  EXPECT_EQ(timeout.verdict, Verdict::Unfit);
  EXPECT_EQ(timeout.grounds.reason, ClaimReason::NotOk);

  SampleRun debug = sample_run();
  debug.context["timing_valid"] = false;
  debug.context["timing_reason"] = "a debug build";
  const ClaimOutcome untimed = outcome_of(at_least(1.5), debug);
  EXPECT_EQ(untimed.verdict, Verdict::Unfit);
  EXPECT_EQ(untimed.grounds.reason, ClaimReason::NoTimes);
  test::expect_phrases("gate", {unmeasured.reason, timeout.reason, untimed.reason});
}

TEST(Claims, AsJsonHaveNullForWhatIsNotKnown) {
  const json unmeasured =
      outcome_of(claim_of("sync_each_batch", "no_sync", Claim::Kind::AtLeast, 1.5));
  EXPECT_TRUE(unmeasured["row"].is_null());
  EXPECT_TRUE(unmeasured["ratio"].is_null());
  EXPECT_EQ(unmeasured["verdict"], "unfit");
  const json measured = outcome_of(at_least(1.5));
  EXPECT_EQ(measured["row"]["part"], "your_machine");
  EXPECT_EQ(measured["need"], "need >= 1.50x");
  EXPECT_EQ(measured["allowed"], json::array({1.5, nullptr}));
  EXPECT_EQ(measured["verdict"], "pass");
}

}  // namespace
}  // namespace gradsync::gate
