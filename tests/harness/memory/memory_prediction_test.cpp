// Predictions of a trial's memory, against a step worked by hand.
// Covers: harness/memory/fsdp_unit.cpp.
#include "harness/memory/memory_prediction.h"

#include <gtest/gtest.h>

#include "harness/memory/ddp_memory.h"
#include "harness/memory/fsdp_memory.h"

namespace gradsync::test {
namespace {

using measure::MemoryCategory;

// One unit of 6 elements that holds 100 bytes for backward, and 1000 while it makes its gradient.
models::Footprint one_unit() {
  models::PassScript pass;
  pass.forward.hold({100});
  pass.backward.hold({1000, 24});
  pass.backward.free({1000, 100});
  pass.backward.gradients({24});
  models::Footprint footprint;
  footprint.units.push_back({"only", {6}, std::make_shared<const models::PassScript>(pass)});
  footprint.after.forward.hold({4});    // the loss
  footprint.before.backward.free({4});  // its gradient
  return footprint;
}

// DDP: 24 of parameters, 24 of buckets, 48 + 4 of AdamW, 7 of data; at the peak, in backward, 100
// of forward, 12 of losses and their gradients, 1000, and the gradient of 24.
TEST(MemoryPrediction, OfDdpByHand) {
  const auto memory = memory::ddp_step_memory({}, one_unit(), {true}, {7});
  EXPECT_EQ(memory.peak_bytes, 24 + 24 + 52 + 7 + 100 + 12 + 1000 + 24);
  EXPECT_EQ(measure::bytes_of(memory.peak_by_category, MemoryCategory::Activation), 1136);
  EXPECT_EQ(memory.peak_place, (memory::StepPlace{0, "backward", "only"}));
}

// The second micro-batch has the first one's gradient beside it.
TEST(MemoryPrediction, OfDdpThatAccumulatesByHand) {
  const auto memory = memory::ddp_step_memory({}, one_unit(), {false, true}, {7});
  EXPECT_EQ(memory.peak_bytes, 24 + 24 + 52 + 7 + 100 + 12 + 1000 + 24 + 24);
  EXPECT_EQ(measure::bytes_of(memory.peak_by_category, MemoryCategory::UnshardedGradient), 24);
  EXPECT_EQ(memory.peak_place, (memory::StepPlace{1, "backward", "only"}));
}

// FSDP on 4 ranks: shards of 2 elements, 8 bytes, with 16 + 4 of AdamW; 32 gathered with padding.
// Kept by no_sync: 32 of gradients; by sync_each_batch: 8.
TEST(MemoryPrediction, OfFsdpByHand) {
  memory::FsdpMemory options;
  options.ranks = 4;
  const auto kept = memory::fsdp_step_memory(options, one_unit(), {false, true}, {7});
  EXPECT_EQ(kept.peak_bytes, 8 + 20 + 32 + 32 + 7 + 100 + 12 + 1000 + 24);
  const auto reduced = memory::fsdp_step_memory(options, one_unit(), {true, true}, {7});
  EXPECT_EQ(reduced.peak_bytes, 8 + 20 + 32 + 8 + 7 + 100 + 12 + 1000 + 24);
  EXPECT_EQ(measure::bytes_of(reduced.peak_by_category, MemoryCategory::ShardedGradient), 8);
}

// Each node has a whole copy, shared by its ranks; summing across nodes takes no memory.
TEST(MemoryPrediction, OfHybridShardingIsThatOfOneNode) {
  plan::Cell cell;
  cell.wrapper = "fsdp";
  launch::LaunchSpec where;
  where.topology.ranks_per_node = 4;
  const auto one_node = memory::predict_memory(cell, where).memory;
  where.topology.nodes = 3;
  const auto three_nodes = memory::predict_memory(cell, where).memory;
  cell.hybrid_shard = true;
  const auto hybrid = memory::predict_memory(cell, where).memory;
  EXPECT_EQ(hybrid, one_node);
  EXPECT_GT(hybrid->peak_bytes, three_nodes->peak_bytes);
}

TEST(MemoryPrediction, WhatIsNotDeclaredHasAReason) {
  launch::LaunchSpec where;
  const auto reason = [&](const plan::Cell& cell) {
    const auto prediction = memory::predict_memory(cell, where);
    EXPECT_FALSE(prediction.memory.has_value());
    return prediction.unknown_because;
  };
  EXPECT_TRUE(memory::predict_memory({}, where).memory.has_value());
  EXPECT_NE(reason({.model = "mixtral_mini"}).find("router"), std::string::npos);
  EXPECT_NE(reason({.model = "logistic"}).find("does not declare"), std::string::npos);
  EXPECT_NE(reason({.wrapper = "by_hand"}).find("wrapper by_hand"), std::string::npos);
  EXPECT_NE(reason({.lengths = "mrpc"}).find("length"), std::string::npos);
  EXPECT_NE(reason({.micro_batch_size = 1}).find("2 or more examples"), std::string::npos);
  EXPECT_NE(reason({.model = "mixtral_mini", .dtype = "bfloat16", .balanced_routing = true})
                .find("fused attention packs"),
            std::string::npos);
  EXPECT_NE(reason({.model = "paced_bert_base_t4", .wrapper = "fsdp", .param_dtype = "bfloat16"})
                .find("in float32"),
            std::string::npos);
  plan::Cell narrow{.model = "bert_tiny", .wrapper = "fsdp", .param_dtype = "bfloat16"};
  narrow.attention = "sdpa";
  EXPECT_NE(reason(narrow).find("scaled_dot_product_attention"), std::string::npos);
  narrow.attention = "eager";
  narrow.offload = "parameters";
  EXPECT_NE(reason(narrow).find("memory of offloading"), std::string::npos);
  where.device = "cuda";
  EXPECT_NE(reason({}).find("depends on the GPU"), std::string::npos);
}

// Each on one rank: 4 bytes of a parameter are stored, 2 are gathered and computed with, and what
// waits for a reduction has the type of that, or of what backward made.
TEST(MemoryPrediction, OfMixedPrecisionCountsEachTypeWhereItIs) {
  const auto highest = [](const plan::Cell& cell, MemoryCategory category) {
    const auto prediction = memory::predict_memory(cell, {});
    return measure::bytes_of(prediction.memory->highest_by_category, category);
  };
  plan::Cell cell{.model = "bert_tiny", .wrapper = "fsdp", .strategy = "no_sync"};
  plan::Cell mixed = cell;
  mixed.param_dtype = "bfloat16";
  plan::Cell narrow = mixed;
  narrow.reduce_dtype = "bfloat16";
  plan::Cell kept = mixed;
  kept.gradient_dtype = "param";
  for (const auto category : {MemoryCategory::ShardedParameter, MemoryCategory::OptimizerState}) {
    EXPECT_EQ(highest(cell, category), highest(narrow, category));
  }
  const auto gathered = MemoryCategory::GatheredParameter;
  EXPECT_EQ(highest(cell, gathered), 2 * highest(mixed, gathered));
  const auto gradient = MemoryCategory::UnshardedGradient;
  EXPECT_EQ(highest(cell, gradient), highest(mixed, gradient));
  EXPECT_EQ(highest(cell, gradient), 2 * highest(narrow, gradient));
  EXPECT_EQ(highest(narrow, gradient), highest(kept, gradient));
}

// Two buffers of 512 positions, 8 bytes each, are packed into a message where they are broadcast.
TEST(MemoryPrediction, WithoutBroadcastNoBufferIsInAMessage) {
  plan::Cell cell;
  cell.model = "bert_tiny";
  const launch::LaunchSpec where;
  const auto highest = [&] {
    return measure::bytes_of(memory::predict_memory(cell, where).memory->highest_by_category,
                             MemoryCategory::Communication);
  };
  const std::int64_t with = highest();
  cell.broadcast_buffers = false;
  EXPECT_EQ(with - highest(), 2 * 512 * 8);
}

// 46.7 G parameters on 8 ranks: none of them is made.
TEST(MemoryPrediction, OfAModelTooLargeToBeMade) {
  plan::Cell cell;
  cell.model = "mixtral_8x7b";
  cell.wrapper = "fsdp";
  cell.strategy = "no_sync";
  cell.micro_batch_size = 1;
  cell.accumulation_steps = 2;
  cell.balanced_routing = true;
  launch::LaunchSpec where;
  where.topology.ranks_per_node = 8;
  const auto prediction = memory::predict_memory(cell, where);
  constexpr std::int64_t kElements = 46'702'792'704;
  const auto& peak = prediction.memory->peak_by_category;
  EXPECT_EQ(measure::bytes_of(peak, MemoryCategory::ShardedParameter), kElements / 8 * 4);
  EXPECT_EQ(measure::bytes_of(peak, MemoryCategory::UnshardedGradient), kElements * 4);
}

}  // namespace
}  // namespace gradsync::test
