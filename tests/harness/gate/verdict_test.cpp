// Covers: phrasebook.cpp.
#include "harness/gate/verdict.h"

#include <gmock/gmock.h>

#include <cmath>

#include "harness/gate/claims.h"
#include "tests/harness/gate/made_rows.h"
#include "tests/harness/report/golden.h"

namespace gradsync::gate {
namespace {

constexpr MadeRow kSlower{.effect = 0.03};
constexpr MadeRow kNoisy{.effect = 0.02, .start = 0.02};

// Sixteen rows, of which the first is `row`, with a confirmation where there is one.
std::vector<RowEvidence> family(const MadeRow& row, const RowDifferences& confirmation = {}) {
  std::vector<RowEvidence> rows(16, RowEvidence{made_row({}), {}, ""});
  rows[0] = {made_row(row), confirmation, ""};
  return rows;
}

RowDifferences confirmation(MadeRow row) {
  row.starts = 10;
  return made_row(row);
}

RowDecision first_of(const std::vector<RowEvidence>& rows) {
  return decide(rows, Settings{}).rows[0];
}

TEST(GateVerdict, TheWorstRowIsTheGates) {
  using enum Verdict;
  EXPECT_EQ(overall({Pass, Pass}), Pass);
  EXPECT_EQ(overall({Pass, Undecided}), Undecided);
  EXPECT_EQ(overall({Undecided, Regression, Pass}), Regression);
  EXPECT_EQ(overall({Regression, Unfit, Undecided}), Unfit);
  EXPECT_THROW(overall({}), InternalError);
  EXPECT_EQ(exit_status_of(Pass), ExitStatus::Ok);
  EXPECT_EQ(exit_status_of(Regression), ExitStatus::Regression);
  EXPECT_EQ(exit_status_of(Undecided), ExitStatus::Undecided);
  EXPECT_EQ(exit_status_of(Unfit), ExitStatus::Unfit);
  EXPECT_EQ(to_string(Undecided), "undecided");
}

TEST(GateVerdict, TheSamePasses) {
  const Decision decision = decide(family({}), Settings{});
  EXPECT_EQ(decision.verdict, Verdict::Pass);
  const RowDecision& row = decision.rows[0];
  EXPECT_FALSE(row.is_open);
  EXPECT_FALSE(row.needs_confirmation);
  EXPECT_EQ(row.turns, 50);
  EXPECT_EQ(row.grounds.reason, RowReason::Small);
}

TEST(GateVerdict, AFindingWaitsForItsConfirmation) {
  const RowDecision row = first_of(family(kSlower));
  EXPECT_EQ(row.verdict, Verdict::Undecided);
  EXPECT_TRUE(row.needs_confirmation);
  EXPECT_EQ(row.grounds.reason, RowReason::Slower);
  EXPECT_LE(row.measures[Measure::Low].p_slower, 0.01);
  EXPECT_FALSE(row.measures[Measure::Low].confirmed_p.has_value());
}

TEST(GateVerdict, AConfirmedFindingIsARegression) {
  const Decision decision = decide(family(kSlower, confirmation(kSlower)), Settings{});
  EXPECT_EQ(decision.verdict, Verdict::Regression);
  const RowDecision& row = decision.rows[0];
  EXPECT_FALSE(row.needs_confirmation);
  EXPECT_EQ(row.grounds.reason, RowReason::Slower);
  EXPECT_NEAR(row.measures[Measure::Low].effect->value, 0.03, 0.001);
  EXPECT_NEAR(row.measures[Measure::Low].confirmed_effect->value, 0.03, 0.001);
  // Two findings, one of each measure.
  const Shifts fresh = shifts_of(confirmation(kSlower)[Measure::Low]);
  const double p = above_p(fresh.candidate, std::log1p(0.01), start_spread(fresh).not_slower);
  EXPECT_DOUBLE_EQ(*row.measures[Measure::Low].confirmed_p, 2 * p);
}

TEST(GateVerdict, AFindingThatDoesNotComeAgainIsNone) {
  const RowDecision row = first_of(family(kSlower, confirmation({})));
  EXPECT_EQ(row.verdict, Verdict::Undecided);
  EXPECT_FALSE(row.needs_confirmation);
  EXPECT_EQ(row.grounds.reason, RowReason::NotSlowerAgain);
  EXPECT_NEAR(row.measures[Measure::Low].confirmed_effect->value, 0, 0.001);
}

std::vector<std::size_t> to_confirm(const std::vector<RowEvidence>& rows) {
  const Decision decision = decide(rows, Settings{});
  std::vector<std::size_t> chosen;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (decision.rows[row].needs_confirmation) chosen.push_back(row);
  }
  return chosen;
}

// The first row and three others are slower, the first less clearly.
std::vector<RowEvidence> family_with_four_findings() {
  auto rows = family({.effect = 0.025, .start = 0.001});
  for (std::size_t row = 1; row <= 3; ++row) rows[row].turns = made_row(kSlower);
  return rows;
}

TEST(GateVerdict, TheClearestFindingsAreConfirmed) {
  auto rows = family_with_four_findings();
  EXPECT_THAT(to_confirm(rows), testing::ElementsAre(1, 2));
  EXPECT_LE(decide(rows, Settings{}).rows[0].measures[Measure::Low].p_slower, 0.01) << "found, too";
  for (const std::size_t row : {1, 2}) rows[row].confirmation = confirmation(kSlower);
  EXPECT_TRUE(to_confirm(rows).empty()) << "one that is confirmed is enough";
  const Decision decision = decide(rows, Settings{});
  EXPECT_EQ(decision.verdict, Verdict::Regression);
  for (const std::size_t row : {0, 3}) {
    EXPECT_EQ(decision.rows[row].verdict, Verdict::Regression);
    EXPECT_EQ(decision.rows[row].grounds.reason, RowReason::Slower);
    EXPECT_FALSE(decision.rows[row].measures[Measure::Low].confirmed_effect) << "clearer ones were";
  }
}

TEST(GateVerdict, WhereNoneIsConfirmedTheNextAreMeasured) {
  auto rows = family_with_four_findings();
  for (const std::size_t row : {1, 2}) rows[row].confirmation = confirmation({});
  EXPECT_THAT(to_confirm(rows), testing::ElementsAre(0, 3));
  const RowDifferences fresh = confirmation(kSlower);
  rows[3].confirmation = fresh;
  const Decision decision = decide(rows, Settings{});
  EXPECT_EQ(decision.rows[3].verdict, Verdict::Regression);
  EXPECT_EQ(decision.rows[1].verdict, Verdict::Undecided);
  // Two findings of each of the three that were measured again.
  const Shifts low = shifts_of(fresh[Measure::Low]);
  EXPECT_DOUBLE_EQ(*decision.rows[3].measures[Measure::Low].confirmed_p,
                   6 * above_p(low.candidate, std::log1p(0.01), start_spread(low).not_slower));
}

TEST(GateVerdict, AConfirmationStandsByItsOwnSpread) {
  // The candidate's starts vary by 2.5 % to either side, the control's do not: with the help of the
  // control 3 % would be sure.
  RowDifferences fresh = confirmation({.effect = 0.03, .start = 0.025});
  for (const Measure measure : kMeasures) {
    fresh[measure].control.assign(fresh[measure].turns(), 0.0);
    const Shifts shifts = shifts_of(fresh[measure]);
    ASSERT_LE(2 * above_p(shifts.candidate, std::log1p(0.01), start_spread(shifts).slower), 0.01);
  }
  const RowDecision row = first_of(family(kSlower, fresh));
  EXPECT_EQ(row.verdict, Verdict::Undecided);
  EXPECT_EQ(row.grounds.reason, RowReason::NotSlowerAgain);
}

TEST(GateVerdict, AFindingTakesNoMoreTurns) {
  EXPECT_FALSE(first_of(family(kSlower)).is_open);
}

TEST(GateVerdict, AShortConfirmationIsNone) {
  RowDifferences fresh = confirmation(kSlower);
  for (const Measure measure : kMeasures) fresh[measure] = fresh[measure].first(99);
  EXPECT_TRUE(first_of(family(kSlower, fresh)).needs_confirmation);
}

TEST(GateVerdict, AControlThatIsOffMakesTheRowUnfit) {
  for (const double control : {0.03, -0.03}) {
    const RowDecision row =
        first_of(family({.effect = 0.03, .control = control}, confirmation(kSlower)));
    EXPECT_EQ(row.verdict, Verdict::Unfit) << control;
    EXPECT_EQ(row.grounds.reason, RowReason::ControlOff);
  }
}

TEST(GateVerdict, AControlThatIsOffInTheConfirmationDoesToo) {
  const RowDecision row =
      first_of(family(kSlower, confirmation({.effect = 0.03, .control = 0.03})));
  EXPECT_EQ(row.verdict, Verdict::Unfit);
  EXPECT_EQ(row.grounds.reason, RowReason::ControlOffInConfirmation);
}

TEST(GateVerdict, WhatCannotBeMeasuredIsUnfitForItsReason) {
  auto rows = family({});
  rows[0] = {{}, {}, "the candidate's rank 1 was killed"};
  const Decision decision = decide(rows, Settings{});
  EXPECT_EQ(decision.verdict, Verdict::Unfit);
  EXPECT_EQ(decision.rows[0].reason, "the candidate's rank 1 was killed");
  EXPECT_FALSE(decision.rows[0].is_open);
  EXPECT_EQ(decision.rows[1].verdict, Verdict::Pass);
}

TEST(GateVerdict, UndecidedSaysWhatItSawAndWhatWouldDecide) {
  const RowDecision row = first_of(family(kNoisy));
  EXPECT_EQ(row.verdict, Verdict::Undecided);
  EXPECT_FALSE(row.is_open);
  EXPECT_EQ(row.turns, 330);
  ASSERT_TRUE(row.smallest_visible.has_value());
  EXPECT_DOUBLE_EQ(*row.smallest_visible, row.measures[Measure::Low].effect->ci95->hi);
  ASSERT_TRUE(row.turns_needed.has_value());
  EXPECT_GT(*row.turns_needed, 330);
  EXPECT_EQ(row.grounds.reason, RowReason::BetweenLimits);
  EXPECT_EQ(row.grounds.measure, Measure::Low);
}

TEST(GateVerdict, UndecidedClaimsToHaveSeenNothingWhereNothingCanBeFoundSlower) {
  Settings one_look;
  one_look.looks = {{50, 0.0, 1.0}};
  const RowDecision row = decide(family(kNoisy), one_look).rows[0];
  EXPECT_EQ(row.verdict, Verdict::Undecided);
  EXPECT_FALSE(row.smallest_visible.has_value());
  EXPECT_EQ(row.grounds.reason, RowReason::BetweenLimits);
}

TEST(GateVerdict, AMeanThatIsUndecidedKeepsARowFromPassing) {
  auto rows = family({});
  rows[0].turns[Measure::Mean] = made_row({.effect = 0.02, .start = 0.05})[Measure::Mean];
  const RowDecision row = first_of(rows);
  EXPECT_EQ(row.verdict, Verdict::Undecided);
  EXPECT_EQ(row.grounds.measure, Measure::Mean);
}

TEST(GateVerdict, AMeanAloneIsARegressionToo) {
  auto rows = family({}, confirmation({}));
  rows[0].turns[Measure::Mean] = made_row({.effect = 0.15})[Measure::Mean];
  rows[0].confirmation[Measure::Mean] = confirmation({.effect = 0.15})[Measure::Mean];
  const RowDecision row = first_of(rows);
  EXPECT_EQ(row.verdict, Verdict::Regression);
  EXPECT_EQ(row.grounds.measure, Measure::Mean);
  EXPECT_NEAR(row.measures[Measure::Mean].effect->value, 0.15, 0.01);
  EXPECT_FALSE(row.measures[Measure::Low].confirmed_p.has_value());
}

TEST(GateVerdict, TooFewTurnsAreUndecided) {
  auto rows = family({});
  for (const Measure measure : kMeasures) {
    rows[0].turns[measure] = rows[0].turns[measure].first(10);
  }
  const RowDecision row = first_of(rows);
  EXPECT_EQ(row.verdict, Verdict::Undecided);
  EXPECT_TRUE(row.is_open);
  EXPECT_EQ(row.grounds.reason, RowReason::TooFewTurns);
}

TEST(GateVerdict, FasterPasses) {
  const RowDecision row = first_of(family({.effect = -0.10}));
  EXPECT_EQ(row.verdict, Verdict::Pass);
  EXPECT_LT(row.measures[Measure::Low].effect->value, 0);
}

TEST(GateVerdict, EffectsReadAsPeopleSayThem) {
  EXPECT_EQ(to_text(Effect{0.0312, stats::Interval{0.027, 0.0361}}), "3.1 % slower [2.7, 3.6]");
  EXPECT_EQ(to_text(Effect{-0.004, stats::Interval{-0.009, 0.002}}), "0.4 % faster [-0.2, 0.9]");
  EXPECT_EQ(to_text(Effect{0.12, std::nullopt}), "12.0 % slower");
}

// A row with every number that a sentence may have.
RowDecision with_grounds(RowGrounds grounds) {
  RowDecision row;
  row.grounds = std::move(grounds);
  row.turns = 24;
  for (const Measure measure : kMeasures) {
    MeasureDecision& decision = row.measures[measure];
    decision.effect = Effect{0.031, stats::Interval{0.027, 0.036}};
    decision.control = Effect{-0.026, stats::Interval{-0.033, -0.019}};
    decision.p_slower = 0.00012;
    decision.p_control = 0.0008;
    decision.confirmed_effect = Effect{0.030, stats::Interval{0.025, 0.036}};
    decision.confirmed_control = Effect{0.02, std::nullopt};
    decision.confirmed_p = 1.5e-05;
    decision.confirmed_p_control = 0.002;
  }
  return row;
}

TEST(GateVerdict, EveryReasonHasItsSentence) {
  Settings settings;
  std::vector<std::string> said;
  const auto say = [&](const RowDecision& row) { said.push_back(sentence(row, settings)); };
  for (const Measure measure : kMeasures) {
    for (const RowReason reason :
         {RowReason::Small, RowReason::Slower, RowReason::NotSlowerAgain, RowReason::ControlOff,
          RowReason::ControlOffInConfirmation, RowReason::TooFewTurns, RowReason::BetweenLimits}) {
      say(with_grounds({reason, measure}));
    }
  }
  RowDecision unconfirmed = with_grounds({RowReason::Slower});
  unconfirmed.measures[Measure::Low].confirmed_effect.reset();
  say(unconfirmed);
  unconfirmed.needs_confirmation = true;
  say(unconfirmed);
  RowDecision in_phases = with_grounds({RowReason::Slower});
  in_phases.phases = {{"optimizer", 0.04, {0.024, stats::Interval{0.019, 0.03}}, 2e-4},
                      {"forward", 0.3, {0.005, std::nullopt}, 0.004},
                      {"backward", 0.6, {0.001, std::nullopt}, 0.3}};
  say(in_phases);
  in_phases.phases.erase(in_phases.phases.begin(), in_phases.phases.begin() + 2);
  say(in_phases);
  RowDecision undecided = with_grounds({RowReason::BetweenLimits});
  undecided.smallest_visible = 0.034;
  undecided.turns_needed = 40;
  say(undecided);
  undecided.turns = settings.looks.back().turns;
  undecided.turns_needed = 5000;
  say(undecided);
  const Effect at_level{0.04, stats::Interval{0.01, 0.07}};
  for (const RowReason reason : {RowReason::IntervalAbove, RowReason::IntervalBelow,
                                 RowReason::IntervalAcross, RowReason::TooFewLaunches}) {
    say(with_grounds({reason, Measure::Mean, at_level, 0.9988, 3}));
  }
  say(with_grounds({.given = "the candidate's rank 1 was killed"}));
  settings.looks = {{24, 0.0, 1.0}};
  say(undecided);
  test::expect_phrases("gate", said);
}

}  // namespace
}  // namespace gradsync::gate
