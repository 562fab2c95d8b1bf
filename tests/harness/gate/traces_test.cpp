#include "harness/gate/traces.h"

#include <gmock/gmock.h>

#include "harness/base/errors.h"
#include "harness/base/whole_file.h"
#include "tests/harness/gate/synthetic_turns.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::gate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Rounding, KeepsFiveDigits) {
  TurnFamily family = synthetic_family({});
  family.rows[0].turns[0].of(Arm::Baseline) = {0.012345678, 1.23456789, 98765.4321, 2e-5};
  round_for_storage(family);
  EXPECT_THAT(family.rows[0].turns[0].of(Arm::Baseline),
              ElementsAre(0.012346, 1.2346, 98765, 2e-5));
  const nlohmann::json step = family.rows[1].turns[7].of(Arm::Control)[3];
  EXPECT_LE(step.dump().size(), std::string("0.0098765").size()) << step;
}

const Settings kSettings = ten_starts();

std::string refused(const std::string& folder) {
  return test::message_of<ConfigError>([&] { read_families(folder); });
}

TEST(ReadFamilies, FollowsTheOrderOfTheNames) {
  const test::TemporaryFolder folder;
  const TurnFamily five = synthetic_family({.extra_work = 0.05});
  folder.write("b.turns.json", to_json(five).dump());
  folder.write("a.turns.json.gz", packed(to_json(synthetic_family({.extra_work = 0.03})).dump()));
  folder.write("error_rates.json", "{}");
  const std::vector<StoredFamily> families = read_families(folder.file(""));
  ASSERT_EQ(families.size(), 2U);
  EXPECT_EQ(families[0].file, folder.file("a.turns.json.gz"));
  EXPECT_EQ(families[0].turns.extra_work, 0.03);
  EXPECT_EQ(to_json(families[1].turns), to_json(five));
}

TEST(ReadFamilies, RefusesWhatIsNoFamilyByItsName) {
  const test::TemporaryFolder folder;
  EXPECT_THAT(refused(folder.file("nowhere")),
              HasSubstr("nowhere: cannot be read: No such file or directory"));
  folder.write("a.turns.json", R"({"schema": "gradsync.gate_turns/1")");
  EXPECT_THAT(refused(folder.file("")), HasSubstr("a.turns.json: not valid JSON"));
  folder.write("a.turns.json", R"({"schema": "other/1"})");
  EXPECT_THAT(refused(folder.file("")), HasSubstr("a.turns.json: field 'schema': got \"other/1\""));
}

TEST(GatePools, AGateTakesStartsOfOneFileAndNoneTwice) {
  const std::vector<StoredFamily> families{
      {"first", synthetic_family({.extra_work = 0.03, .starts = 10, .seed = 1})},
      {"second", synthetic_family({.extra_work = 0, .starts = 9, .seed = 2})},
      {"third", synthetic_family({.extra_work = 0.03, .starts = 24, .seed = 3})}};
  const std::vector<GatePool> pools = gate_pools(families, kSettings);
  ASSERT_EQ(pools.size(), 2U);
  EXPECT_EQ(pools[0].extra_work, 0);
  EXPECT_TRUE(pools[0].gates.empty()) << "nine starts are too few";
  EXPECT_EQ(pools[1].extra_work, 0.03);
  ASSERT_EQ(pools[1].gates.size(), 3U) << "four of the 24 are left out";
  const TurnFamily& last = pools[1].gates[2];
  ASSERT_EQ(last.rows.size(), 2U);
  ASSERT_EQ(last.rows[1].turns.size(), 40U);
  EXPECT_EQ(last.rows[1].turns[3].start, 0);
  EXPECT_EQ(last.rows[1].turns[4].start, 1);
  EXPECT_EQ(last.rows[1].turns[6].step_s, families[2].turns.rows[1].turns[46].step_s);
  ASSERT_EQ(last.starts.size(), 10U);
  EXPECT_EQ(last.starts[3], families[2].turns.starts[13]);
}

TEST(GatePools, StartsThatNobodyDrewCameUpInTheOldOrder) {
  TurnFamily older = synthetic_family({});
  older.starts.clear();
  const TurnFamily gate = gate_pools({{"older", older}}, kSettings).front().gates.front();
  EXPECT_EQ(gate.starts, std::vector<StartDraw>(10));
}

TEST(GatePools, WhatCannotStandTogetherIsRefused) {
  const StoredFamily first{"first", synthetic_family({})};
  const auto sentence = [&](TurnFamily second) {
    return test::message_of<ConfigError>([&] {
      gate_pools({first, {"second", std::move(second)}}, kSettings);
    });
  };
  EXPECT_EQ(sentence(synthetic_family({.passes = 2})),
            "second: field 'settings.passes': got 2, expected 4, as in the other turns");
  EXPECT_EQ(sentence(synthetic_family({.rows = 3})),
            "second: field 'rows': got other rows, expected the rows of the other turns");
  TurnFamily closed_early = synthetic_family({});
  closed_early.rows[1].turns.resize(16);
  EXPECT_EQ(sentence(closed_early),
            "second: field 'rows[1].turns': got 0 turns of start 4, expected 4, since a gate is "
            "composed of whole starts");
}

TEST(GatePools, AGateTakesTheStartsOfItsLooksAndOfItsConfirmation) {
  EXPECT_EQ(starts_per_gate(kSettings), 10U) << "24 and 16 turns in starts of 4";
  Settings uneven = kSettings;
  uneven.start_turns = 10;
  EXPECT_THROW(starts_per_gate(uneven), InternalError);
  Settings half = kSettings;
  half.confirmation_turns = 14;
  EXPECT_THROW(starts_per_gate(half), InternalError);
}

}  // namespace
}  // namespace gradsync::gate
