// A step of a model of two blocks, by hand.
//
// Covers: ddp_job.cpp, fully_shard_job.cpp, shard_group.cpp.
#include "harness/memory/jobs/job_memory.h"

#include <gtest/gtest.h>

namespace gradsync::memory {
namespace {

using measure::MemoryCategory;
using models::MemoryProfile;
using models::PassEvent;

PassEvent hold(std::int64_t high, std::int64_t net) {
  return {PassEvent::Kind::Hold, 0, high, net};
}
PassEvent in(std::size_t module) {
  return {PassEvent::Kind::Enter, module};
}
PassEvent out(std::size_t module) {
  return {PassEvent::Kind::Leave, module};
}
PassEvent gradient(std::size_t parameter) {
  return {PassEvent::Kind::Gradient, parameter, 0, 16};
}

// Blocks a and b save 100 bytes each and have four elements; backward needs 60 at most, of which a
// gradient of 16 stays. The first block's inputs need no gradient, so its backward has no end.
MemoryProfile two_blocks() {
  MemoryProfile profile;
  profile.dtype = "float32";
  profile.batch_bytes = 8;
  profile.parameters = {{"a.weight", {4}}, {"b.weight", {4}}};
  profile.modules = {{"", "Model"}, {"a", "Block"}, {"b", "Block"}};
  profile.forward = {in(0),          in(1),  hold(100, 100), out(1),    in(2),
                     hold(100, 100), out(2), out(0),         hold(4, 4)};
  profile.backward_first = {in(0),  in(2), hold(60, 16), gradient(1), hold(0, -100),
                            out(2), in(1), hold(60, 16), gradient(0), hold(0, -104)};
  profile.backward_later = {in(0),  in(2), hold(60, 16), gradient(1), hold(0, -116),
                            out(2), in(1), hold(60, 16), gradient(0), hold(0, -120)};
  return profile;
}

const std::vector<std::size_t> kBlocks{1, 2};
constexpr std::int64_t kActivations = 100 + 100 + 4 + 60;  // where b's backward is at its highest

// Parameters, moments and their counters, the batch.
constexpr std::int64_t kAlone = 32 + 2 * 32 + 2 * 4 + 8;
constexpr std::int64_t kBuckets = 32;

TEST(DdpJob, TheModelAlone) {
  const StepMemory memory = ddp_job_memory({.has_reducer = false}, two_blocks(), {true});
  EXPECT_EQ(memory.peak_bytes, kAlone + kActivations);
  EXPECT_EQ(memory.peak_place, (StepPlace{0, "backward", "b"}));
}

TEST(DdpJob, BucketsAreThereAndLaterMicroBatchesFindGradients) {
  EXPECT_EQ(ddp_job_memory({}, two_blocks(), {true}).peak_bytes, kAlone + kBuckets + kActivations);
  const StepMemory two = ddp_job_memory({}, two_blocks(), {false, true});
  EXPECT_EQ(two.peak_bytes, kAlone + kBuckets + kActivations + 32);
  EXPECT_EQ(two.peak_place, (StepPlace{1, "backward", "b"}));
  EXPECT_EQ(bytes_of(two.peak_by_category, MemoryCategory::UnshardedGradient), 32);
  EXPECT_EQ(ddp_job_memory({}, two_blocks(), {false, false, false, true}).peak_bytes,
            two.peak_bytes);
}

TEST(DdpJob, GradientsThatAreViewsOfBucketsTakeNothing) {
  const DdpJob views{.gradient_as_bucket_view = true};
  EXPECT_EQ(ddp_job_memory(views, two_blocks(), {true, true}).peak_bytes,
            kAlone + kBuckets + kActivations);
  EXPECT_EQ(ddp_job_memory(views, two_blocks(), {false, true}).peak_bytes,
            kAlone + kBuckets + kActivations + 32);
}

// The first block's backward is the last: all other gradients are where they stay.
TEST(DdpJob, GradientsLeaveForTheirBucketsOnce) {
  MemoryProfile profile = two_blocks();
  profile.backward_later[7].high = 500;
  const StepMemory memory =
      ddp_job_memory({.gradient_as_bucket_view = true}, profile, {true, true});
  EXPECT_EQ(memory.peak_place, (StepPlace{1, "backward", "a"}));
  EXPECT_EQ(memory.peak_bytes, kAlone + kBuckets + 104 + 500);
}

TEST(DdpJob, FrozenParametersHaveNoMomentsAndNoBuckets) {
  MemoryProfile profile = two_blocks();
  profile.parameters.push_back({"frozen", {1000}, false});
  EXPECT_EQ(ddp_job_memory({}, profile, {true}).peak_bytes,
            kAlone + kBuckets + kActivations + 4000);
}

// On two ranks: half of each parameter and of its moments; a mesh for each of three calls.
constexpr std::int64_t kMesh = 2 * 4;
constexpr std::int64_t kShards = 16 + 2 * 16 + 2 * 4 + 8 + 3 * kMesh;
constexpr std::int64_t kBlock = 16;

FullyShardJob on_two_ranks() {
  return {.ranks = 2, .units = kBlocks};
}

// In b's backward its parameters are gathered, and those of a are on their way.
TEST(FullyShardJob, AUnitIsGatheredAndTheOneBeforeIsOnItsWay) {
  const StepMemory memory = fully_shard_job_memory(on_two_ranks(), two_blocks(), {true});
  EXPECT_EQ(memory.peak_bytes, kShards + kActivations + kBlock + kBlock);
  EXPECT_EQ(bytes_of(memory.peak_by_category, MemoryCategory::GatheredParameter), kBlock);
  EXPECT_EQ(bytes_of(memory.peak_by_category, MemoryCategory::Communication), kBlock);
  EXPECT_EQ(memory.peak_place, (StepPlace{0, "backward", "b"}));
}

// In b's forward the buffer that b was gathered into is still there, that of a is not.
TEST(FullyShardJob, ForwardKeepsTheLastBuffer) {
  MemoryProfile profile = two_blocks();
  profile.forward[5].high = 1000;
  const StepMemory memory = fully_shard_job_memory(on_two_ranks(), profile, {true});
  EXPECT_EQ(memory.peak_place, (StepPlace{0, "forward", "b"}));
  EXPECT_EQ(memory.peak_bytes, kShards + 100 + 1000 + kBlock + kBlock);
}

// In a's backward: its parameters, what b's gradients were packed into, and what was reduced.
TEST(FullyShardJob, AReducedUnitLeavesItsInputAndItsShard) {
  MemoryProfile profile = two_blocks();
  profile.backward_first[7].high = 1000;
  FullyShardJob job = on_two_ranks();
  const StepMemory memory = fully_shard_job_memory(job, profile, {true});
  EXPECT_EQ(memory.peak_place, (StepPlace{0, "backward", "a"}));
  EXPECT_EQ(memory.peak_bytes, kShards + 104 + 1000 + kBlock + kBlock + kBlock / 2);
  job.reshard_after_backward = false;
  EXPECT_EQ(fully_shard_job_memory(job, profile, {true}).peak_bytes, memory.peak_bytes + kBlock);
}

TEST(FullyShardJob, WithoutAReductionWholeGradientsStay) {
  const std::int64_t one = fully_shard_job_memory(on_two_ranks(), two_blocks(), {true}).peak_bytes;
  const StepMemory kept = fully_shard_job_memory(on_two_ranks(), two_blocks(), {false, true});
  EXPECT_EQ(kept.peak_bytes, one + 2 * kBlock);
  EXPECT_EQ(bytes_of(kept.peak_by_category, MemoryCategory::UnshardedGradient), 2 * kBlock);
  const StepMemory reduced = fully_shard_job_memory(on_two_ranks(), two_blocks(), {true, true});
  EXPECT_EQ(reduced.peak_bytes, one + kBlock);
  EXPECT_EQ(bytes_of(reduced.peak_by_category, MemoryCategory::ShardedGradient), kBlock);
}

TEST(FullyShardJob, WithoutReshardAllUnitsStayGathered) {
  FullyShardJob job = on_two_ranks();
  job.reshard_after_forward = false;
  const StepMemory memory = fully_shard_job_memory(job, two_blocks(), {true});
  EXPECT_EQ(bytes_of(memory.peak_by_category, MemoryCategory::GatheredParameter), 2 * kBlock);
  EXPECT_EQ(bytes_of(memory.peak_by_category, MemoryCategory::Communication), 0);
}

TEST(FullyShardJob, OfOneUnitNothingIsResharded) {
  FullyShardJob job = on_two_ranks();
  job.units.clear();
  const StepMemory memory = fully_shard_job_memory(job, two_blocks(), {true});
  EXPECT_EQ(memory.peak_bytes, kShards - 2 * kMesh + kActivations + 2 * kBlock);
}

TEST(FullyShardJob, RowsThatCannotBeDealtOutEvenlyArePadded) {
  MemoryProfile profile = two_blocks();
  for (auto& parameter : profile.parameters) parameter.shape = {3, 1};  // two rows for rank 0
  EXPECT_EQ(fully_shard_job_memory(on_two_ranks(), profile, {true}).highest_by_category,
            fully_shard_job_memory(on_two_ranks(), two_blocks(), {true}).highest_by_category);
}

TEST(FullyShardJob, OnOneRankNothingIsSent) {
  FullyShardJob job = on_two_ranks();
  job.ranks = 1;
  const StepMemory memory = fully_shard_job_memory(job, two_blocks(), {true});
  EXPECT_EQ(bytes_of(memory.peak_by_category, MemoryCategory::Communication), 0);
  EXPECT_EQ(bytes_of(memory.peak_by_category, MemoryCategory::ShardedParameter), 32);
}

// Gathered in half the bytes; gradients that stay are cast to what they are reduced in, and so
// autograd makes new ones, in half the bytes.
TEST(FullyShardJob, KeptGradientsAreWidened) {
  FullyShardJob job = on_two_ranks();
  job.param_bytes = 2;
  MemoryProfile profile = two_blocks();
  for (auto* pass : {&profile.backward_first, &profile.backward_later}) {
    for (PassEvent& event : *pass) {
      if (event.net == kBlock) event.net = kBlock / 2;  // both where it is made and where complete
    }
  }
  const StepMemory memory = fully_shard_job_memory(job, profile, {false, true});
  EXPECT_EQ(bytes_of(memory.peak_by_category, MemoryCategory::GatheredParameter), kBlock / 2);
  EXPECT_EQ(bytes_of(memory.peak_by_category, MemoryCategory::UnshardedGradient),
            2 * kBlock + kBlock / 2);
  EXPECT_EQ(fully_shard_job_memory(job, profile, {false, false, true}).peak_bytes,
            memory.peak_bytes);
}

}  // namespace
}  // namespace gradsync::memory
