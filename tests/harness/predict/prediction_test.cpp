#include "harness/predict/prediction.h"

#include <gmock/gmock.h>

#include <map>
#include <string>

#include "tests/harness/predict/worked_model.h"

namespace gradsync::predict {
namespace {

using test::each_layer;
using test::three_layers;
using test::two_nodes;

TEST(Prediction, OfASlowLinkNamesItAndTheBucketsThatQueue) {
  const auto of = predict_step(three_layers(), two_nodes(4), each_layer({true}), {});
  EXPECT_DOUBLE_EQ(of.step_s, 17.5);
  EXPECT_DOUBLE_EQ(of.compute_s, 9.5);
  EXPECT_DOUBLE_EQ(of.exposed_s, 8);
  EXPECT_DOUBLE_EQ(of.path.compute_s, 3 + 2 + 0.5);  // until the first bucket is ready; optimizer
  EXPECT_DOUBLE_EQ(of.path.wire_s, 12);
  EXPECT_EQ(of.limit, "link between nodes 69 %: bucket 1 to bucket 3");
}

TEST(Prediction, OfAFastLinkNamesCompute) {
  const auto of = predict_step(three_layers(), two_nodes(1), each_layer({true}), {});
  EXPECT_EQ(of.limit, "compute 90 %");
}

TEST(Prediction, SaysWhatAChangeWouldBuy) {
  const auto of = predict_step(three_layers(), two_nodes(4), each_layer({true, true}), {});
  std::map<std::string, double> saved;
  for (const Gain& gain : of.gains) saved[gain.change] = gain.saved_s;
  EXPECT_DOUBLE_EQ(saved.at("links of twice the rate"), 2 * (17 - 11));
  EXPECT_DOUBLE_EQ(saved.at("one synchronization per step"), 17 - 9);
  EXPECT_DOUBLE_EQ(saved.at("gradients of two bytes"), 2 * (17 - 11));
  EXPECT_DOUBLE_EQ(saved.at("no latency, and no cost of the host"), 0);
}

// Compute 1 % more and less: 0.095 s, of the path's 5.5 s alone where the link queues. Rates 10 %:
// the 12 s on the wire become 12 / 1.1 and 12 x 1.1.
TEST(Prediction, TheIntervalIsThatOfItsInputs) {
  const auto network = two_nodes(4);
  const auto certain = predict_step(three_layers(), network, each_layer({true}), {});
  EXPECT_EQ(certain.interval90, (stats::Interval{17.5, 17.5}));
  const auto compute = predict_step(three_layers(), network, each_layer({true}), {.compute = 0.01});
  EXPECT_NEAR(compute.interval90.hi - 17.5, 1.6449 * 5.5 * (1.01 - 1 / 1.01) / 2, 1e-4);
  const auto rate = predict_step(three_layers(), network, each_layer({true}), {.rate = 0.1});
  EXPECT_NEAR(17.5 - rate.interval90.lo, 1.6449 * 12 * (1.1 - 1 / 1.1) / 2, 1e-3);
}

// 1,024 nodes of 8 ranks, 200 layers, 16 micro-batches; a step is made nine times over for its
// interval and its gains. A count: the test's limit of time is for hangs.
TEST(Prediction, OfManyRanksHasNoMoreSpansThanOfTwo) {
  StepModel model;
  for (int i = 0; i < 200; ++i) model.layers.push_back({"layer", 1e-3, 2e-3, {1'000'000}});
  Network network;
  network.nodes = 1024;
  network.ranks_per_node = 8;
  network.intra = Link{3e11, 1e-6};
  network.inter = Link{5e10, 1e-5};
  network.algorithm = Algorithm::TwoLevel;
  StepOptions options;
  options.syncs.assign(16, true);
  const std::size_t spans = step_schedule(model, network, options).spans().size();
  network.nodes = 1;
  EXPECT_EQ(step_schedule(model, network, options).spans().size(), spans);
  network.nodes = 1024;
  const auto of = predict_step(model, network, options, {.compute = 0.02, .rate = 0.03});
  EXPECT_GT(of.step_s, 16 * 0.6);
  EXPECT_GT(of.interval90.hi, of.step_s);
}

}  // namespace
}  // namespace gradsync::predict
