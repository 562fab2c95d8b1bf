#include "harness/gate/row_decision.h"

#include <gmock/gmock.h>

#include <cmath>

#include "harness/base/errors.h"

namespace gradsync::gate {
namespace {

using ::testing::DoubleEq;
using ::testing::DoubleNear;
using ::testing::ElementsAre;

// The probability above t with 2 degrees of freedom, which has a closed form.
double tail_of_two_degrees(double t) {
  return (1 - t / std::sqrt(2 + t * t)) / 2;
}

std::vector<double> negative(std::vector<double> values) {
  for (double& value : values) value = -value;
  return values;
}

TEST(Differences, AreLogarithmsOfLowQuantilesAndMeans) {
  Turn turn;
  turn.start = 3;
  turn.of(Arm::Baseline) = {5, 4, 3, 2, 1, 6, 7, 8, 9, 10, 11};  // 10 % of 11 is the second: 2
  turn.of(Arm::Candidate) = turn.of(Arm::Baseline);
  for (double& step : turn.of(Arm::Candidate)) step += 1;
  turn.of(Arm::Control) = turn.of(Arm::Baseline);
  turn.of(Arm::Control).back() += 11;  // one stall: the mean sees it, the low quantile does not
  const RowDifferences row = differences({turn}, 0.10);
  EXPECT_THAT(row[Measure::Low].candidate, ElementsAre(DoubleEq(std::log(3.0 / 2))));
  EXPECT_THAT(row[Measure::Low].control, ElementsAre(0.0));
  // Both of the baseline's kind count alike: log(7) - (log(6) + log(7)) / 2.
  EXPECT_THAT(row[Measure::Mean].candidate, ElementsAre(DoubleNear(std::log(7.0 / 6) / 2, 1e-12)));
  EXPECT_THAT(row[Measure::Mean].control, ElementsAre(DoubleEq(std::log(7.0 / 6))));
  EXPECT_THAT(row[Measure::Mean].start, ElementsAre(3));
}

TEST(Differences, OfAnEmptyBlockAreABug) {
  EXPECT_THROW(differences({Turn{}}, 0.10), InternalError);
}

TEST(Differences, TheFirstAreCutInAllThree) {
  const Differences row{{0, 0, 1}, {1, 2, 3}, {4, 5, 6}};
  const Differences two = row.first(2);
  EXPECT_THAT(two.start, ElementsAre(0, 0));
  EXPECT_THAT(two.candidate, ElementsAre(1, 2));
  EXPECT_THAT(two.control, ElementsAre(4, 5));
  EXPECT_EQ(row.first(7).turns(), 3U);
}

TEST(StartShifts, AreRobustForTheLowQuantileAlone) {
  Differences row{
      {0, 0, 0, 4, 4, 4}, {0.01, 0.03, 0.05, 0.02, 0.04, 0.9}, {0.02, 0.02, 0.02, 0.0, 0.0, 0.06}};
  EXPECT_THAT(shifts_of(row).candidate, ElementsAre(DoubleEq(0.03), DoubleEq(0.25)));
  EXPECT_THAT(shifts_of(row).control, ElementsAre(DoubleEq(0.02), DoubleEq(0.015)));
  row.measure = Measure::Mean;
  EXPECT_THAT(shifts_of(row).candidate, ElementsAre(DoubleEq(0.03), DoubleEq(0.32)));
  EXPECT_EQ(shifts_of({}).starts(), 0U);
  EXPECT_THAT(shifts_of(row).first(1).control, ElementsAre(DoubleEq(0.02)));
  EXPECT_EQ(starts_within(row, 0), 0U);
  EXPECT_EQ(starts_within(row, 3), 1U);
  EXPECT_EQ(starts_within(row, 9), 2U);
}

TEST(StartShifts, OfTheMeanHearAStallThatIsRare) {
  Turn turn;
  for (const Arm arm : kArms) turn.of(arm) = std::vector<double>(4, 0.01);
  std::vector<Turn> turns(10, turn);
  for (const std::size_t stalled : {2, 7}) turns[stalled].of(Arm::Candidate)[1] = 0.02;
  const RowDifferences row = differences(turns, 0.25);
  EXPECT_THAT(shifts_of(row[Measure::Low]).candidate, ElementsAre(0.0));
  // Two of ten turns with a quarter more.
  EXPECT_THAT(shifts_of(row[Measure::Mean]).candidate,
              ElementsAre(DoubleNear(0.2 * std::log(1.25), 1e-12)));
}

TEST(StartSpread, ByHand) {
  // Candidate: 0.01 to either side of 0.02; control: 0.02 and 0, so 0.01 to either side of 0.01.
  const StartSpread spread = start_spread({{0.01, 0.03}, {0.02, 0.0}});
  EXPECT_NEAR(spread.slower.value, (2e-4 + 0.75 * 4e-4) / 3, 1e-15);  // the control's about 0
  EXPECT_EQ(spread.slower.degrees, 3);
  EXPECT_NEAR(spread.not_slower.value, 2e-4, 1e-15);  // the candidate's alone
  EXPECT_EQ(spread.not_slower.degrees, 1);
  EXPECT_NEAR(spread.control.value, (2e-4 / 0.75 + 2e-4) / 2, 1e-15);
  EXPECT_EQ(spread.control.degrees, 2);
}

TEST(StartSpread, OfOneStartIsTheControls) {
  const StartSpread spread = start_spread({{0.06}, {0.02}});
  EXPECT_NEAR(spread.slower.value, 0.75 * 0.02 * 0.02, 1e-15);
  EXPECT_EQ(spread.slower.degrees, 1);
  EXPECT_EQ(spread.not_slower.degrees, 0);
  EXPECT_EQ(spread.control.degrees, 0);
  EXPECT_EQ(start_spread({}).slower.degrees, 0);
}

TEST(StartSpread, LeansOnOtherRowsButForPassing) {
  const stats::Variance one{1.0, 4.0};
  const auto rows = moderated({{one, one, one}, {}, {one, one, {}}});
  EXPECT_DOUBLE_EQ(rows[0].slower.degrees, 8.0);
  EXPECT_DOUBLE_EQ(rows[0].not_slower.degrees, 4.0);
  EXPECT_EQ(rows[1].slower.degrees, 0);  // nothing is known of it, and it tells nothing
  EXPECT_DOUBLE_EQ(rows[2].slower.degrees, 8.0);
  EXPECT_DOUBLE_EQ(rows[0].control.degrees, 4.0);
  EXPECT_EQ(rows[2].control.degrees, 0);
}

TEST(AboveP, IsStudentsOfTheShifts) {
  const std::vector<double> shifts{0.02, 0.03, 0.04};
  // t = (0.03 - 0.00) / sqrt(3e-4 / 3) = 3, and 1 at nine times the variance.
  EXPECT_NEAR(above_p(shifts, 0, {3e-4, 2}), tail_of_two_degrees(3), 1e-12);
  EXPECT_NEAR(above_p(shifts, 0, {27e-4, 2}), tail_of_two_degrees(1), 1e-12);
  EXPECT_NEAR(above_p(shifts, 0.02, {3e-4, 2}), tail_of_two_degrees(1), 1e-12);
}

TEST(AboveP, WithoutShiftsOrSpreadNothingIsKnown) {
  EXPECT_EQ(above_p({}, 0, {1, 5}), 1);
  EXPECT_EQ(above_p({0.15}, 0, {}), 1);
  EXPECT_EQ(above_p({0.1, 0.1}, 0, {0, 2}), 0);  // starts that do not vary
  EXPECT_EQ(above_p({0.1, 0.1}, 0.2, {0, 2}), 1);
}

TEST(PValues, AskTheFourQuestions) {
  const Shifts row{{0.02, 0.021, 0.022, 0.023}, {-0.02, -0.021, -0.022, -0.023}};
  const stats::Variance of_each{4e-4, 2};  // so the error of the mean is 0.01
  const StartSpread spread{of_each, of_each, of_each};
  const PValues p = p_values(row, spread, 0.01, 0.03);
  // Thresholds are shares: their logarithms are what shifts are held against.
  EXPECT_NEAR(p.slower, tail_of_two_degrees((0.0215 - std::log(1.01)) / 0.01), 1e-12);
  EXPECT_NEAR(p.not_slower, tail_of_two_degrees((std::log(1.03) - 0.0215) / 0.01), 1e-12);
  EXPECT_NEAR(p.control_slower, tail_of_two_degrees((-0.0215 - std::log(1.01)) / 0.01), 1e-12);
  EXPECT_NEAR(p.control_faster, tail_of_two_degrees((0.0215 - std::log(1.01)) / 0.01), 1e-12);
}

TEST(PValues, EachQuestionHasItsSpread) {
  const Shifts row{{0.02, 0.02}, {0.02, 0.02}};
  const stats::Variance known{1e-12, 50};
  const stats::Variance unknown{};
  EXPECT_LT(p_values(row, {known, unknown, unknown}, 0.01, 0.03).slower, 1e-9);
  EXPECT_EQ(p_values(row, {known, unknown, unknown}, 0.01, 0.03).not_slower, 1);
  EXPECT_LT(p_values(row, {unknown, known, unknown}, 0.01, 0.03).not_slower, 1e-9);
  EXPECT_LT(p_values(row, {unknown, unknown, known}, 0.01, 0.03).control_slower, 1e-9);
}

TEST(EffectOf, TheIntervalHoldsWhatTheTestDoesNotRefuse) {
  const std::vector<double> shifts{0.011, 0.042, -0.013, 0.035, 0.021};
  const stats::Variance spread{4e-4, 4};
  const auto effect = effect_of(shifts, spread);
  ASSERT_TRUE(effect.has_value());
  EXPECT_NEAR(effect->value, std::expm1(0.0192), 1e-12);
  for (double margin = -0.08; margin < 0.1; margin += 0.0007) {
    const bool refused = above_p(shifts, margin, spread) <= 0.025 ||
                         above_p(negative(shifts), -margin, spread) <= 0.025;
    EXPECT_EQ(effect->ci95->contains(std::expm1(margin)), !refused) << margin;
  }
}

TEST(EffectOf, SaysWhatItDoesNotKnow) {
  EXPECT_FALSE(effect_of({}, {1, 1}).has_value());
  const auto one = effect_of({0.015}, {});
  EXPECT_NEAR(one->value, std::expm1(0.015), 1e-12);
  EXPECT_FALSE(one->ci95.has_value());
}

TEST(Components, AreOfTheCandidatesTurns) {
  const auto of = components({{0, 0, 1, 1}, {0.01, 0.03, 0.07, 0.05}, {9, 9, 9, 9}});
  EXPECT_THAT(*of.within, DoubleNear(2e-4, 1e-15));
  // Levels 0.02 and 0.06: (2 x 8e-4 - 2e-4) / 2.
  EXPECT_THAT(*of.between, DoubleNear(7e-4, 1e-15));
}

TEST(TurnsToDecide, ByHandWithTwoDegrees) {
  // The quantile of 2 degrees with p above it is sqrt(2 q^2 / (1 - q^2)), q = 1 - 2 p. Shift 0.02,
  // margin 0 (gap 0.02) at 5 %, and log(1.05) - 0.02 for the other question, at 1 %.
  const auto quantile = [](double p) {
    const double q = 1 - 2 * p;
    return std::sqrt(2 * q * q / (1 - q * q));
  };
  const double slower = std::pow((quantile(0.05) + quantile(0.1)) * 0.02 / 0.02, 2);
  const double not_slower =
      std::pow((quantile(0.01) + quantile(0.1)) * 0.02 / (std::log(1.05) - 0.02), 2);
  ASSERT_LT(slower, not_slower);
  EXPECT_EQ(turns_to_decide(0.02, {0.02 * 0.02, 2}, 0, 0.05, 0.05, 0.01, 8, 8),
            8 * static_cast<int>(std::ceil(slower)));
  EXPECT_EQ(turns_to_decide(-0.02, {0.02 * 0.02, 2}, 0, 0.05, 0.05, 0.01, 8, 8),
            8 * static_cast<int>(std::ceil(std::pow(
                    (quantile(0.01) + quantile(0.1)) * 0.02 / (std::log(1.05) + 0.02), 2))));
  EXPECT_EQ(turns_to_decide(0.02, {1e-12, 2}, 0, 0.05, 0.05, 0.01, 8, 24), 32);  // one start more
}

}  // namespace
}  // namespace gradsync::gate
