#include "harness/gate/looks.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/harness/gate/made_rows.h"

namespace gradsync::gate {
namespace {

// Returns sixteen rows without an effect, except the first one, which is `row`.
std::vector<RowDifferences> differences_with(const MadeRow& row) {
  std::vector<RowDifferences> rows(16, made_row({}));
  rows[0] = made_row(row);
  return rows;
}

RowProgress first_of(const MadeRow& row) {
  return go_through_looks(differences_with(row), Settings{})[0];
}

// Starts that shift by 3 % to either side.
constexpr MadeRow kNoisyStarts{.effect = 0.02, .start = 0.03};

TEST(Looks, AClearPassEndsAtTheFirstThatCanPass) {
  const RowProgress progress = first_of({});
  EXPECT_FALSE(progress.is_open);
  EXPECT_EQ(progress.turns, 50);
  EXPECT_TRUE(is_pass(progress.p, Settings{}));
}

TEST(Looks, AClearRegressionEndsAtTheFirst) {
  const RowProgress progress = first_of({.effect = 0.05});
  EXPECT_FALSE(progress.is_open);
  EXPECT_EQ(progress.turns, 20);
  EXPECT_LE(progress.p[Measure::Low].slower, 0.01 / 32);
  EXPECT_EQ(progress.p[Measure::Low].not_slower, 1);  // has no weight there
}

TEST(Looks, AControlThatIsOffEndsToo) {
  for (const double control : {0.05, -0.05}) {
    const RowProgress progress = first_of({.control = control});
    EXPECT_EQ(progress.turns, 20) << control;
    const PValues& p = progress.p[Measure::Low];
    EXPECT_LE(std::min(p.control_slower, p.control_faster), 0.01 / 64);
    EXPECT_EQ(std::max(p.control_slower, p.control_faster), 1);
  }
}

TEST(Looks, WhatIsNotClearTakesAllTurns) {
  const RowProgress progress = first_of(kNoisyStarts);
  EXPECT_FALSE(progress.is_open);
  EXPECT_EQ(progress.turns, 330);
  EXPECT_FALSE(is_pass(progress.p, Settings{}));
}

TEST(Looks, TurnsAfterTheLastLookOfARowDoNotCount) {
  auto rows = differences_with({});
  const auto before = go_through_looks(rows, Settings{});
  for (Measure measure : kMeasures) {
    for (std::size_t turn = 50; turn < 330; ++turn) rows[0][measure].candidate[turn] = 0.5;
  }
  const auto after = go_through_looks(rows, Settings{});
  EXPECT_EQ(after[0].turns, 50);
  EXPECT_EQ(after[0].p[Measure::Low].slower, before[0].p[Measure::Low].slower);
  EXPECT_EQ(after[0].spread[Measure::Low].slower.value,
            before[0].spread[Measure::Low].slower.value);
}

TEST(Looks, ARowIsAsFarAsItsTurnsAre) {
  auto rows = differences_with(kNoisyStarts);
  for (Measure measure : kMeasures) rows[0][measure] = rows[0][measure].first(90);
  RowProgress progress = go_through_looks(rows, Settings{})[0];
  EXPECT_TRUE(progress.is_open);
  EXPECT_EQ(progress.turns, 80);
  for (Measure measure : kMeasures) rows[0][measure] = rows[0][measure].first(10);
  progress = go_through_looks(rows, Settings{})[0];
  EXPECT_TRUE(progress.is_open);
  EXPECT_EQ(progress.turns, 0);
  EXPECT_EQ(progress.p[Measure::Low].not_slower, 1);
}

TEST(Looks, EachLookSpendsItsShareOfTheError) {
  // The p-value of the fifth start counts by what that look has of the error.
  const auto not_slower = [](double weight) {
    Settings settings;
    settings.looks = {{50, 1.0, weight}, {60, 0.0, 1 - weight}};
    auto rows = differences_with({.effect = 0.01, .start = 0.004});
    for (auto& measure : rows[0].values) measure = measure.first(50);
    return go_through_looks(rows, settings)[0].p[Measure::Low].not_slower;
  };
  EXPECT_NEAR(not_slower(0.25), 2 * not_slower(0.5), 1e-12);
  EXPECT_EQ(not_slower(0), 1);
}

TEST(Looks, RowsLeanOnEachOtherWhereTheyAgree) {
  const RowDifferences row = made_row({.effect = 0.05, .start = 0.006});
  const auto among = go_through_looks(std::vector<RowDifferences>(16, row), Settings{});
  EXPECT_EQ(among[0].turns, 20);
  EXPECT_NEAR(among[0].spread[Measure::Low].slower.degrees, 16 * 3, 1e-9);
  EXPECT_NEAR(among[0].spread[Measure::Low].not_slower.degrees, 1, 1e-9);
  EXPECT_GT(go_through_looks({row}, Settings{})[0].turns, 20) << "alone it knows less";
}

TEST(Looks, CountTests) {
  EXPECT_EQ(slower_tests(16), 32U);
  EXPECT_EQ(control_tests(16), 64U);
}

}  // namespace
}  // namespace gradsync::gate
