#include "harness/gate/row_decision.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "harness/base/errors.h"
#include "harness/stats/signed_rank.h"

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
  EXPECT_THAT(row[Measure::Mean].candidate, ElementsAre(DoubleEq(std::log(7.0 / 6))));
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

TEST(StartShifts, OneForEachStart) {
  EXPECT_THAT(start_shifts({0.01, 0.03, 0.05, 0.02, 0.04, 0.9}, {0, 0, 0, 4, 4, 4}),
              ElementsAre(DoubleEq(0.03), DoubleEq(0.25)));
  EXPECT_TRUE(start_shifts({}, {}).empty());
}

TEST(StartSpread, ByHand) {
  // Candidate: 0.01 to either side of 0.02; control: 0.02 and 0, so 0.01 to either side of 0.01.
  const StartSpread spread = start_spread({{0, 1}, {0.01, 0.03}, {0.02, 0.0}});
  for (const stats::Variance& of_candidate : {spread.slower, spread.not_slower}) {
    EXPECT_NEAR(of_candidate.value, (2e-4 + 4e-4) / 3, 1e-15);  // the control's about 0
    EXPECT_NEAR(of_candidate.degrees, 9 / 3.5, 1e-12);
  }
  EXPECT_NEAR(spread.control.value, (2e-4 + 2e-4) / 2, 1e-15);
  EXPECT_NEAR(spread.control.degrees, 4 / 2.5, 1e-12);
}

TEST(StartSpread, OfOneStartIsTheControls) {
  const StartSpread spread = start_spread({{0, 0}, {0.05, 0.07}, {0.01, 0.03}});
  EXPECT_NEAR(spread.slower.value, 0.02 * 0.02, 1e-15);
  EXPECT_EQ(spread.slower.degrees, 1);
  EXPECT_EQ(spread.control.degrees, 0);
  EXPECT_EQ(start_spread({}).slower.degrees, 0);
}

TEST(StartSpread, PoolsByDegrees) {
  const stats::Variance both = pooled({1.0, 1.0}, {4.0, 2.0});
  EXPECT_DOUBLE_EQ(both.value, 3.0);
  EXPECT_DOUBLE_EQ(both.degrees, 3.0);
  EXPECT_DOUBLE_EQ(pooled({}, {4.0, 2.0}).value, 4.0);
  EXPECT_EQ(pooled({}, {}).degrees, 0);
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

TEST(AboveP, IsTheLargerOfBothTests) {
  const std::vector<double> values{0.02, 0.03, 0.04};
  const std::vector<int> start{0, 1, 2};
  // t = (0.03 - 0.00) / sqrt(3e-4 / 3) = 3 has 4.8 %; three turns have 1/8.
  EXPECT_LT(tail_of_two_degrees(3), 1.0 / 8);
  EXPECT_DOUBLE_EQ(above_p(values, start, 0, {3e-4, 2}), 1.0 / 8);
  // t = 1 has 21 %.
  EXPECT_NEAR(above_p(values, start, 0, {27e-4, 2}), tail_of_two_degrees(1), 1e-12);
  EXPECT_NEAR(above_p(values, start, 0.005, {3e-4, 2}), 1.0 / 8, 1e-12);
}

TEST(AboveP, ManyTurnsOfOneStartDoNotReplaceStarts) {
  std::vector<double> values;
  for (int i = 0; i < 24; ++i) values.push_back(0.03 + 1e-4 * i);
  const std::vector<int> one_start(24, 0);
  EXPECT_LT(stats::signed_rank_p(values, 0.01), 1e-7);
  const double shift = std::accumulate(values.begin(), values.end(), 0.0) / 24;
  EXPECT_NEAR(above_p(values, one_start, 0.01, {0.02 * 0.02, 2}),
              tail_of_two_degrees((shift - 0.01) / 0.02), 1e-12);
}

TEST(AboveP, WithoutTurnsOrSpreadNothingIsKnown) {
  EXPECT_EQ(above_p({}, {}, 0, {1, 5}), 1);
  EXPECT_EQ(above_p({0.1, 0.2}, {0, 0}, 0, {}), 1);
  EXPECT_DOUBLE_EQ(above_p({0.1, 0.1}, {0, 1}, 0, {0, 2}), 0.25);  // starts that do not vary
  EXPECT_EQ(above_p({0.1, 0.1}, {0, 1}, 0.2, {0, 2}), 1);
}

TEST(PValues, AskTheFourQuestions) {
  const Differences row{{0, 1, 2, 3}, {0.02, 0.021, 0.022, 0.023}, {-0.02, -0.021, -0.022, -0.023}};
  const stats::Variance small{1e-12, 50};
  const StartSpread sure{small, small, small};
  const PValues p = p_values(row, sure, 0.01, 0.03);
  EXPECT_DOUBLE_EQ(p.slower, 1.0 / 16);
  EXPECT_DOUBLE_EQ(p.not_slower, 1.0 / 16);
  EXPECT_DOUBLE_EQ(p.control_slower, 1);
  EXPECT_DOUBLE_EQ(p.control_faster, 1.0 / 16);
  // Shares, not logarithms: 0.0222 is below log(1.0225), 0.02225.
  EXPECT_GT(p_values(row, sure, 0.0225, 0.03).slower, 1.0 / 16);
  EXPECT_DOUBLE_EQ(p_values(row, sure, 0.01, 0.0233).not_slower, 1.0 / 16);
}

TEST(EffectOf, TheIntervalHoldsWhatNeitherTestRefuses) {
  const std::vector<double> values{0.011, 0.042,  -0.013, 0.035,  0.021,
                                   0.031, 0.0502, 0.0073, 0.0191, 0.0277};
  const std::vector<int> start{0, 0, 0, 0, 1, 1, 1, 2, 2, 2};
  for (const double variance : {1e-6, 4e-4}) {  // the turns' interval is the wider one; the starts'
    const stats::Variance spread{variance, 5};
    const auto effect = effect_of(values, start, spread);
    ASSERT_TRUE(effect.has_value());
    for (double margin = -0.08; margin < 0.1; margin += 0.0007) {
      const bool refused = above_p(values, start, margin, spread) <= 0.025 ||
                           above_p(negative(values), start, -margin, spread) <= 0.025;
      EXPECT_EQ(effect->ci95->contains(std::expm1(margin)), !refused) << margin << " " << variance;
    }
  }
}

TEST(EffectOf, SaysWhatItDoesNotKnow) {
  EXPECT_FALSE(effect_of({}, {}, {1, 1}).has_value());
  const auto few = effect_of({0.01, 0.02}, {0, 0}, {1e-4, 3});
  EXPECT_NEAR(few->value, std::expm1(0.015), 1e-12);
  EXPECT_FALSE(few->ci95.has_value());
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
