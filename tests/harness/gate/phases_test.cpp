#include "harness/gate/phases.h"

#include <gmock/gmock.h>

#include "harness/stats/random.h"

namespace gradsync::gate {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int kSteps = 4;
constexpr double kStep = 0.010;
const std::map<std::string, double> kPhaseS = {
    {"backward", 0.005}, {"copy", 0}, {"forward", 0.003}, {"optimizer", 0.002}};

// A number between -1 and 1, every one equally likely.
double even(stats::Random& random) {
  constexpr std::uint64_t kFine = 1U << 30U;
  return 2 * static_cast<double>(random.below(kFine)) / kFine - 1;
}

// Turns of ten in a start, whose phases vary by up to 1 % of a step. The candidate's are longer by
// these shares of a step.
std::vector<Turn> turns_of(int starts, const std::map<std::string, double>& longer,
                           std::uint64_t seed = 1) {
  stats::Random random(seed);
  std::vector<Turn> turns;
  for (int number = 0; number < 10 * starts; ++number) {
    Turn& turn = turns.emplace_back();
    turn.start = number / 10;
    for (const Arm arm : kArms) {
      const auto at = static_cast<std::size_t>(arm);
      for (const auto& [phase, usual_s] : kPhaseS) {
        double& spent_s = turn.phase_s[phase][at];
        if (usual_s == 0) continue;
        spent_s = kSteps * (usual_s + 0.01 * kStep * even(random));
        const auto added = longer.find(phase);
        if (arm == Arm::Candidate && added != longer.end()) {
          spent_s += kSteps * kStep * added->second;
        }
        turn.elapsed_s[at] += spent_s;
      }
      turn.of(arm).assign(kSteps, turn.elapsed_s[at] / kSteps);
    }
  }
  return turns;
}

RowDecision slower_row() {
  RowDecision row;
  row.verdict = Verdict::Regression;
  row.grounds = {.reason = RowReason::Slower, .measure = Measure::Low};
  row.measures[Measure::Low].confirmed_effect = Effect{0.05, std::nullopt};
  row.reason = sentence(row, Settings{});
  return row;
}

TEST(GatePhases, TheLargestEffectIsFirstAndInSharesOfAStep) {
  const auto phases = phase_effects(turns_of(10, {{"optimizer", 0.05}}), Measure::Low);
  ASSERT_EQ(phases.size(), 3U) << "nobody copies";
  EXPECT_EQ(phases[0].phase, "optimizer");
  EXPECT_NEAR(phases[0].share, 0.2, 0.01);
  EXPECT_NEAR(phases[0].effect.value, 0.05, 0.003);
  ASSERT_TRUE(phases[0].effect.ci95);
  EXPECT_TRUE(phases[0].effect.ci95->contains(0.05));
  EXPECT_LT(*phases[0].p, 1e-6);
  EXPECT_GT(*phases[1].p, 0.01);
}

TEST(GatePhases, MeansAddUpToTheMeanStep) {
  const std::vector<Turn> turns = turns_of(10, {{"forward", 0.04}, {"backward", -0.02}});
  double sum = 0;
  for (const PhaseEffect& phase : phase_effects(turns, Measure::Mean)) sum += phase.effect.value;
  const Differences step = differences(turns, 0.25)[Measure::Mean];
  const std::vector<double> shifts = shifts_of(step).candidate;
  EXPECT_NEAR(sum, effect_of(shifts, own_spread(shifts))->value, 0.001);
}

TEST(GatePhases, EqualArmsSeldomNameOne) {
  constexpr double kLevel = 0.05;
  int named = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    for (const PhaseEffect& phase : phase_effects(turns_of(4, {}, seed), Measure::Low)) {
      named += *phase.p <= kLevel ? 1 : 0;
    }
  }
  EXPECT_LE(named, 34) << "34 of 400 have a chance of 0.2 % at 5 %";
  EXPECT_GE(named, 1) << "a test that never errs has another level";
}

TEST(GatePhases, TurnsThatDoNotKnowTheirPhasesHaveNone) {
  EXPECT_THAT(phase_effects({}, Measure::Low), IsEmpty());
  std::vector<Turn> turns = turns_of(4, {});
  turns.back().phase_s.clear();
  EXPECT_THAT(phase_effects(turns, Measure::Low), IsEmpty());
}

TEST(GatePhases, AConfirmedRowNamesThemByItsFreshStarts) {
  RowDecision row = slower_row();
  add_phases(row, turns_of(4, {{"forward", 0.05}}), turns_of(10, {{"optimizer", 0.05}}), {});
  EXPECT_EQ(row.phases.front().phase, "optimizer");
  EXPECT_THAT(row.reason, HasSubstr("longer in optimizer ("));
  EXPECT_THAT(row.reason, Not(HasSubstr("forward")));
}

TEST(GatePhases, WhatIsSpreadEvenlyMayNameNone) {
  RowDecision row = slower_row();
  add_phases(row, {}, turns_of(2, {{"optimizer", 0.002}}), Settings{});
  EXPECT_EQ(row.phases.size(), 3U);
  EXPECT_THAT(row.reason, HasSubstr("no phase by itself is surely longer"));
}

TEST(GatePhases, ARowThatNothingConfirmedNamesNone) {
  RowDecision row = slower_row();
  row.verdict = Verdict::Undecided;
  const std::string reason = row.reason;
  add_phases(row, turns_of(10, {{"optimizer", 0.05}}), {}, Settings{});
  EXPECT_FALSE(row.phases.front().p);
  EXPECT_NEAR(row.phases.front().effect.value, 0.05, 0.003);
  EXPECT_EQ(row.reason, reason);
}

}  // namespace
}  // namespace gradsync::gate
