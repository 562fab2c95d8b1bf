#include "harness/gate/looks.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "tests/harness/gate/made_rows.h"

namespace gradsync::gate {
namespace {

// Sixteen rows without an effect but for the first one, which is `row`.
std::vector<RowDifferences> family(const MadeRow& row) {
  std::vector<RowDifferences> rows(16, made_row({}));
  rows[0] = made_row(row);
  return rows;
}

RowProgress first_of(const MadeRow& row) {
  return go_through_looks(family(row), Settings{})[0];
}

TEST(Looks, AClearPassEndsAtTheFirst) {
  const RowProgress progress = first_of({});
  EXPECT_FALSE(progress.is_open);
  EXPECT_EQ(progress.turns, 8);
  EXPECT_TRUE(is_pass(progress.p, Settings{}));
  EXPECT_DOUBLE_EQ(progress.p[Measure::Low].not_slower, 1.0 / 256 / 0.4);
  EXPECT_EQ(progress.p[Measure::Low].slower, 1);  // has no weight there
}

TEST(Looks, AClearRegressionEndsAtTheSecond) {
  const RowProgress progress = first_of({.effect = 0.05});
  EXPECT_FALSE(progress.is_open);
  EXPECT_EQ(progress.turns, 16);
  EXPECT_DOUBLE_EQ(progress.p[Measure::Low].slower, std::exp2(-16) / 0.4);
}

TEST(Looks, AControlThatIsOffEndsToo) {
  for (const double control : {0.05, -0.05}) {
    const RowProgress progress = first_of({.control = control});
    EXPECT_EQ(progress.turns, 16) << control;
    const PValues& p = progress.p[Measure::Low];
    EXPECT_LE(std::min(p.control_slower, p.control_faster), 0.01 / 64);
    EXPECT_EQ(std::max(p.control_slower, p.control_faster), 1);
  }
}

TEST(Looks, WhatIsNotClearTakesAllTurns) {
  const RowProgress progress = first_of({.effect = 0.02, .turn = 0.05});
  EXPECT_FALSE(progress.is_open);
  EXPECT_EQ(progress.turns, 24);
  EXPECT_FALSE(is_pass(progress.p, Settings{}));
}

TEST(Looks, TurnsAfterTheLastLookOfARowDoNotCount) {
  auto rows = family({});
  const auto before = go_through_looks(rows, Settings{});
  for (Measure measure : kMeasures) {
    for (std::size_t turn = 8; turn < 24; ++turn) rows[0][measure].candidate[turn] = 0.5;
  }
  const auto after = go_through_looks(rows, Settings{});
  EXPECT_EQ(after[0].turns, 8);
  EXPECT_EQ(after[0].p[Measure::Low].slower, before[0].p[Measure::Low].slower);
  EXPECT_EQ(after[0].spread[Measure::Low].slower.value,
            before[0].spread[Measure::Low].slower.value);
}

TEST(Looks, ARowIsAsFarAsItsTurnsAre) {
  auto rows = family({.effect = 0.02, .turn = 0.05});
  for (Measure measure : kMeasures) rows[0][measure] = rows[0][measure].first(20);
  RowProgress progress = go_through_looks(rows, Settings{})[0];
  EXPECT_TRUE(progress.is_open);
  EXPECT_EQ(progress.turns, 16);
  for (Measure measure : kMeasures) rows[0][measure] = rows[0][measure].first(4);
  progress = go_through_looks(rows, Settings{})[0];
  EXPECT_TRUE(progress.is_open);
  EXPECT_EQ(progress.turns, 0);
  EXPECT_EQ(progress.p[Measure::Low].not_slower, 1);
}

TEST(Looks, EachLookSpendsItsShareOfTheError) {
  // Clear at the second look, but with a level that only the third one's weight reaches.
  Settings settings;
  settings.looks[1].slower_weight = 0.001;
  settings.looks[2].slower_weight = 0.999;
  const RowProgress progress = go_through_looks(family({.effect = 0.05}), settings)[0];
  EXPECT_EQ(progress.turns, 24);
  EXPECT_LE(progress.p[Measure::Low].slower, 0.01 / 32);
}

TEST(Looks, RowsLeanOnEachOtherWhereTheyAgree) {
  const RowDifferences row = made_row({.effect = 0.05});
  const auto alone = go_through_looks({row}, Settings{});
  const auto among = go_through_looks(std::vector<RowDifferences>(16, row), Settings{});
  const double own = 49 / 8.5;  // four starts
  EXPECT_EQ(among[0].turns, 16);
  EXPECT_NEAR(alone[0].spread[Measure::Low].slower.degrees, alone[0].turns == 16 ? own : 121 / 13.5,
              1e-9);
  EXPECT_NEAR(among[0].spread[Measure::Low].slower.degrees, 16 * own, 1e-9);
  EXPECT_NEAR(among[0].spread[Measure::Low].not_slower.degrees, own, 1e-9);
}

TEST(Looks, CountTests) {
  EXPECT_EQ(slower_tests(16), 32U);
  EXPECT_EQ(control_tests(16), 64U);
}

}  // namespace
}  // namespace gradsync::gate
