#include "harness/results/parameters.h"

#include <gmock/gmock.h>

namespace gradsync::results {
namespace {

using nlohmann::json;

Parameters cell(const json& changes = json::object()) {
  json written{{"topology", "1x2"}, {"strategy", "no_sync"}, {"accumulation_steps", 4}};
  written.update(changes);
  return written;
}

TEST(Parameters, WhatWasNotWrittenIsAsItWasBeforeThereWasIt) {
  EXPECT_EQ(cell().accumulation_steps(), 4);
  EXPECT_EQ(cell().compression(), "none");
  EXPECT_EQ(cell().scale(), 1);
  EXPECT_TRUE(cell().reshard_after_forward());
  EXPECT_FALSE(cell().sync_batch_norm());
  EXPECT_EQ(cell({{"dtype", "bfloat16"}}).reduce_dtype(), "bfloat16") << "as stored";
  EXPECT_FALSE(cell().memory_budget_bytes());
  EXPECT_EQ(cell({{"memory_budget_bytes", 4096}}).memory_budget_bytes(), 4096);
}

TEST(Parameters, AValueThatNoPlanHasStaysWhatItIs) {
  const Parameters other = cell({{"strategy", "of_another_version"}, {"new_option", 3}});
  EXPECT_EQ(other.strategy(), "of_another_version");
  EXPECT_EQ(other.value("new_option"), 3);
  EXPECT_TRUE(other.value("newer_option").is_null());
}

TEST(Parameters, CellsAreTheSameWhereTheSameWasWritten) {
  EXPECT_EQ(cell(), cell());
  EXPECT_NE(cell(), cell({{"compression", "none"}}));
  EXPECT_EQ(cell({{"compression", "fp16"}}).without({"compression"}), cell());
  EXPECT_EQ(cell().with("strategy", "baseline").strategy(), "baseline");
}

}  // namespace
}  // namespace gradsync::results
