#include "harness/predict/step_schedule.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numbers>

#include "tests/harness/predict/worked_model.h"

namespace gradsync::predict {
namespace {

using test::each_layer;
using test::three_layers;
using test::two_nodes;

double step_s(const StepModel& model, const Network& network, const StepOptions& options) {
  return step_schedule(model, network, options).end_s();
}

// Forward 3 s, backward 6 s, optimizer 0.5 s; buckets are ready at 5, 7 and 9 s.
TEST(Ddp, HidesAllButTheLastBucketOfAFastLink) {
  const Schedule schedule = step_schedule(three_layers(), two_nodes(1), each_layer({true}));
  EXPECT_DOUBLE_EQ(schedule.end_s(), 9 + 1 + 0.5);
  EXPECT_DOUBLE_EQ(schedule.exposed_s(), 1);
}

TEST(Ddp, QueuesOnASlowLinkFromTheFirstBucketOn) {
  EXPECT_DOUBLE_EQ(step_s(three_layers(), two_nodes(4), each_layer({true})), 5 + 3 * 4 + 0.5);
}

TEST(Ddp, InOneBucketNothingOverlaps) {
  StepOptions options = each_layer({true});
  options.buckets = {1 << 20, 1 << 20};
  EXPECT_DOUBLE_EQ(step_s(three_layers(), two_nodes(1), options), 9 + 3 * 1 + 0.5);
}

TEST(Ddp, WaitsInTheMicroBatchesThatSynchronizeAlone) {
  const Network network = two_nodes(4);  // a synchronized micro-batch takes 17 s, another one 9 s
  EXPECT_DOUBLE_EQ(step_s(three_layers(), network, each_layer({true, true})), 2 * 17 + 0.5);
  EXPECT_DOUBLE_EQ(step_s(three_layers(), network, each_layer({false, true})), 9 + 17 + 0.5);
}

TEST(Ddp, BroadcastsBuffersBeforeAForwardThatFollowsASynchronizedOne) {
  StepModel model = three_layers();
  model.buffer_bytes = {2000};  // half a second
  const Network network = two_nodes(1);
  EXPECT_DOUBLE_EQ(step_s(model, network, each_layer({false, true})), 0.5 + 9 + 10 + 0.5);
  EXPECT_DOUBLE_EQ(step_s(model, network, each_layer({true, true})), 2 * 10.5 + 0.5);
  StepOptions without = each_layer({true});
  without.broadcasts_buffers = false;
  EXPECT_DOUBLE_EQ(step_s(model, network, without), 10.5);
}

TEST(Ddp, GradientsOfTwoBytesAreCutIntoTheSameBuckets) {
  StepOptions options = each_layer({true});
  options.gradient_bytes = 2;
  EXPECT_DOUBLE_EQ(step_s(three_layers(), two_nodes(4), options), 5 + 3 * 2 + 0.5);
}

TEST(Host, CopiesBackWhatIsReducedAndIsBusyInEveryMicroBatch) {
  Network network = two_nodes(1);
  network.host.copy_per_byte_s = 0.25 / 12000;  // a quarter of a second for all of it
  network.host.micro_batch_s = 0.125;
  StepOptions options = each_layer({false, true});
  EXPECT_DOUBLE_EQ(step_s(three_layers(), network, options), 2 * 9.125 + 1 + 0.25 + 0.5);
  options.copies_back = false;
  EXPECT_DOUBLE_EQ(step_s(three_layers(), network, options), 2 * 9.125 + 1 + 0.5);
  options.wrapper = "fsdp";
  EXPECT_DOUBLE_EQ(step_s(three_layers(), network, options),
                   2 * (0.5 + 3.125 + 0.5 + 6) + 0.5 + 0.5);
}

// Buckets are ready at 5.25, 7.5 and 9.75 s.
TEST(Host, FillsBucketsThatAreNoViews) {
  Network network = two_nodes(1);
  network.host.fill_per_byte_s = 0.25 / 4000;
  StepOptions options = each_layer({false, true});
  EXPECT_DOUBLE_EQ(step_s(three_layers(), network, options), 9 + 9.75 + 1 + 0.5);
  options.copies_back = false;
  EXPECT_DOUBLE_EQ(step_s(three_layers(), network, options), 9 + 9 + 1 + 0.5);
}

// A bucket is sent for 1 s, in which its rank computes half a second's work: twice in backward.
TEST(Host, ComputesMoreSlowlyBesideTheWire) {
  Network network = two_nodes(1);
  network.host.processor_per_byte_s = 0.5 / 4000;
  EXPECT_DOUBLE_EQ(step_s(three_layers(), network, each_layer({true})), 9 + 2 * 0.5 + 1 + 0.5);
}

TEST(ByHand, NothingOverlaps) {
  StepOptions options = each_layer({true});
  Network network = two_nodes(1);
  network.host.collective_s = 0.25;
  options.wrapper = "by_hand";
  EXPECT_DOUBLE_EQ(step_s(three_layers(), network, options), 9 + 3 * 1.25 + 0.5);
  options.wrapper = "by_hand_coalesced";
  EXPECT_DOUBLE_EQ(step_s(three_layers(), network, options), 9 + 3 + 0.25 + 0.5);
  options.wrapper = "local";
  EXPECT_DOUBLE_EQ(step_s(three_layers(), network, options), 9 + 0.5);
}

// Gathers take 0.5 s each. Only the first one of forward and of backward is waited for; reduces
// take 0.5 s, and only the last one is.
StepOptions sharded(std::vector<bool> syncs) {
  StepOptions options = each_layer(std::move(syncs));
  options.wrapper = "fsdp";
  return options;
}

TEST(Fsdp, PrefetchHidesAllButTheFirstGatherAndTheLastReduce) {
  EXPECT_DOUBLE_EQ(step_s(three_layers(), two_nodes(1), sharded({true})),
                   0.5 + 3 + 0.5 + 6 + 0.5 + 0.5);
}

// The root's gather stands in front of the first unit's, its reduce behind the last one's.
TEST(Fsdp, TheRootIsGatheredFirstAndReducedLast) {
  StepModel model = three_layers();
  model.root_elements = 1000;
  EXPECT_DOUBLE_EQ(step_s(model, two_nodes(1), sharded({true})),
                   2 * 0.5 + 3 + 0.5 + 6 + 2 * 0.5 + 0.5);
  StepOptions keeps = sharded({false, true});
  keeps.reshards_after_backward = keeps.reshards_after_forward = false;
  EXPECT_DOUBLE_EQ(step_s(model, two_nodes(1), keeps), 2 * 0.5 + 9 + 9 + 2 * 0.5 + 0.5);
}

TEST(Fsdp, ALayerWithoutParametersGathersNothingAhead) {
  StepModel model = three_layers();
  model.layers.push_back({"head", 1, 2, {}});
  EXPECT_DOUBLE_EQ(step_s(model, two_nodes(1), sharded({true})), 0.5 + 4 + 2 + 0.5 + 6 + 0.5 + 0.5);
}

TEST(Fsdp, MakesAndFreesWhatItGathersAndReduces) {
  Network network = two_nodes(1);
  network.host.shard_per_byte_s = 0.25 / 4000;
  EXPECT_DOUBLE_EQ(step_s(three_layers(), network, sharded({true})),
                   0.5 + 3.75 + 0.5 + 6 + 6 * 0.25 + 0.5 + 0.5);
}

TEST(Fsdp, ARankOfAModelThatComputesStepsItsShardAlone) {
  StepModel model = three_layers();
  model.shards_optimizer = true;
  EXPECT_DOUBLE_EQ(step_s(model, two_nodes(1), sharded({true})), 0.5 + 3 + 0.5 + 6 + 0.5 + 0.25);
}

TEST(Fsdp, WithoutPrefetchEveryGatherIsWaitedFor) {
  StepOptions options = sharded({true});
  options.prefetches = false;
  // Those of backward besides stand behind the reduce before, which is issued first: 0.5 s each.
  EXPECT_DOUBLE_EQ(step_s(three_layers(), two_nodes(1), options),
                   3 * 1.5 + 3 * 2.5 + 2 * 0.5 + 0.5 + 0.5);
}

TEST(Fsdp, WithoutReshardingParametersAreGatheredOnce) {
  StepOptions options = sharded({true});
  options.reshards_after_forward = false;
  EXPECT_DOUBLE_EQ(step_s(three_layers(), two_nodes(1), options), 0.5 + 3 + 6 + 0.5 + 0.5);
}

TEST(Fsdp, ParametersThatStayAreNotGatheredInTheNextMicroBatch) {
  StepOptions options = sharded({false, true});
  const double freed_s = step_s(three_layers(), two_nodes(1), options);
  options.reshards_after_forward = false;
  options.reshards_after_backward = false;
  EXPECT_DOUBLE_EQ(freed_s, 2 * (0.5 + 3 + 0.5 + 6) + 0.5 + 0.5);
  EXPECT_DOUBLE_EQ(step_s(three_layers(), two_nodes(1), options), 0.5 + 2 * 9 + 0.5 + 0.5);
}

// Two nodes of two: gathers and reduces inside a node take 0.5 s of 4000 bytes. Across nodes each
// rank sums half of them, two at once over 8000 bytes/s: 2000 / 4000 s.
TEST(Fsdp, AHybridShardsInsideANodeAndSumsAcrossNodes) {
  StepOptions options = sharded({true});
  options.is_hybrid = true;
  Network network;
  network.nodes = 2;
  network.ranks_per_node = 2;
  network.intra = Link{4000, 0};
  network.inter = Link{8000, 0};
  EXPECT_DOUBLE_EQ(step_s(three_layers(), network, options), 0.5 + 3 + 0.5 + 6 + 0.5 + 0.5 + 0.5);
}

// The slower of two ranks is 1 / sqrt(pi) deviations above the mean.
TEST(Stragglers, AreWaitedForOncePerSynchronization) {
  StepOptions options = each_layer({true, true});
  options.rank_spread = 0.1;
  StepModel model = three_layers();
  const Network network = two_nodes(1e-9);
  const double late = 0.1 / std::sqrt(std::numbers::pi);
  EXPECT_NEAR(step_s(model, network, options), 18 * (1 + late) + 0.5, 1e-6);
  options.syncs = {false, true};  // the sum of two varies by a factor of sqrt(2), not 2
  EXPECT_NEAR(step_s(model, network, options), 18 * (1 + late / std::sqrt(2)) + 0.5, 1e-6);
}

}  // namespace
}  // namespace gradsync::predict
