// Covers: cell_name.cpp.
#include "harness/summary/part_view.h"

#include <gmock/gmock.h>

#include "harness/summary/build_result.h"
#include "tests/harness/results/sample_run.h"

namespace gradsync::summary {
namespace {

using nlohmann::json;
using results::TrialRecord;
using test::sample_cell;
using test::sample_trial;
using ::testing::ElementsAre;

// Cells that differ as `changes` say, each under baseline and no_sync.
PartView part_of(const std::vector<json>& changes) {
  std::vector<TrialRecord> trials;
  for (const json& change : changes) {
    for (const char* strategy : {"baseline", "no_sync"}) {
      json cell = sample_cell("2x1_1gbit", strategy);
      cell.update(change);
      trials.push_back(
          sample_trial("", cell, 0, {strategy == std::string("baseline") ? 2.0 : 1.0}));
    }
  }
  auto parts = parts_of(build_result(test::sample_context(), json::object(), trials));
  return std::move(parts.front());
}

const std::vector<json> kShardings{
    {{"wrapper", "fsdp"}, {"reshard_after_forward", true}, {"activation_checkpointing", "full"}},
    {{"wrapper", "fsdp"}, {"reshard_after_forward", false}, {"activation_checkpointing", "none"}}};

TEST(PartView, ACellIsNamedByWhereItRanAndWhatVaries) {
  const CellName name = part_of(kShardings).cells.at(2).name;
  EXPECT_EQ(
      name.place(),
      "2 nodes x 1 rank, 1 Gbit/s, activation_checkpointing none, reshard_after_forward false");
  EXPECT_EQ(name.varying_text({"activation_checkpointing"}), ", reshard_after_forward false");
  EXPECT_EQ(name.varying_text({}, Sharding::ByName),
            ", activation_checkpointing none, SHARD_GRAD_OP");
  EXPECT_EQ(name.strategy, "baseline");
}

TEST(PartView, WhatDoesNotVaryIsNotInTheNames) {
  const PartView part = part_of({json::object()});
  EXPECT_TRUE(part.varying.empty());
  EXPECT_EQ(part.cells.front().name.place(), "2 nodes x 1 rank, 1 Gbit/s");
}

TEST(PartView, InATableTheTopologyIsToldOnce) {
  const PartView part = part_of(kShardings);
  std::vector<std::string> told;
  for (const CellView& cell : part.cells) told.push_back(cell.name.texts().front());
  EXPECT_THAT(told, ElementsAre("2 nodes x 1 rank", "1 Gbit/s", "", ""));
  EXPECT_THAT(part.cells.front().name.heads(), ElementsAre("topology", "activation_checkpointing",
                                                           "reshard_after_forward", "strategy"));
}

TEST(PartView, ASettingHasTheCellsThatDifferInStrategyAlone) {
  const PartView part = part_of(kShardings);
  ASSERT_EQ(part.settings.size(), 2U);
  const Setting& second = part.settings.back();
  EXPECT_EQ(&second.first(), &part.cells.at(2));
  EXPECT_EQ(second.under("no_sync"), &part.cells.at(3));
  EXPECT_EQ(second.under("accumulate"), nullptr);
  EXPECT_NEAR(second.slowdown_of("baseline")->ratio, 2, 1e-9);
  EXPECT_EQ(second.slowdown_of("accumulate"), nullptr);
}

TEST(PartView, ShardingsAreCountedInTheOrderInWhichTheyCome) {
  const PartView part = part_of({kShardings.at(1), kShardings.at(0), kShardings.at(1)});
  std::vector<std::size_t> groups;
  for (const CellView& cell : part.cells) groups.push_back(cell.sharding_group);
  EXPECT_THAT(groups, ElementsAre(0, 0, 1, 1));
}

TEST(PartView, WhatVariesUnderFsdpDecidesWhetherItIsAboutMemory) {
  EXPECT_TRUE(part_of(kShardings).is_about_memory);
  EXPECT_FALSE(part_of({kShardings.front()}).is_about_memory);
  EXPECT_TRUE(part_of({{{"wrapper", "fsdp"}, {"memory_budget_bytes", 1 << 20}}}).is_about_memory);
  EXPECT_FALSE(part_of({{{"accumulation_steps", 1}}, {{"accumulation_steps", 2}}}).is_about_memory);
  for (const char* lever : {"activation_checkpointing", "selective_checkpointing", "offload"}) {
    EXPECT_TRUE(
        part_of({{{"wrapper", "fsdp"}, {lever, "none"}}, {{"wrapper", "fsdp"}, {lever, "x"}}})
            .is_about_memory)
        << lever;
  }
}

}  // namespace
}  // namespace gradsync::summary
