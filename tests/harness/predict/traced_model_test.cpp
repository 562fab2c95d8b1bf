// The step of traces that are made event by event, worked out by hand.
#include "harness/predict/traced_model.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "harness/base/errors.h"
#include "harness/predict/link_fit.h"
#include "harness/predict/prediction.h"
#include "tests/harness/watch/read/foreign/gpu_trace.h"

namespace gradsync::predict {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using watch::RankEvents;
using watch::test::GpuTrace;
using watch::test::Pace;
using watch::test::too_often;

constexpr double kTolerance = 1e-9;  // seconds; the traces have microseconds

// The step that is predicted on links that fit the traces' own collectives.
double predicted_s(const TracedModel& traced, const std::vector<bool>& syncs) {
  const FittedLink link = fit_link(traced.collectives);
  Network network;
  network.ranks_per_node = traced.ranks;
  network.intra = Link{link.bytes_per_s, link.latency_s, 0};
  network.host.collective_s = link.collective_s;
  StepOptions options = traced.options;
  options.syncs = syncs;
  return predict_step(traced.model, network, options, {}).step_s;
}

TEST(TracedModel, ItsLayersAreTheBucketsOfTheTrace) {
  const TracedModel traced = traced_model({too_often().rank()});
  ASSERT_EQ(traced.model.layers.size(), 2U);
  EXPECT_THAT(traced.model.layers[0].elements, ElementsAre());
  EXPECT_NEAR(traced.model.layers[0].backward_s, 40e-6, kTolerance);
  EXPECT_THAT(traced.model.layers[1].elements, ElementsAre(1'000'000));
  EXPECT_NEAR(traced.model.layers[1].backward_s, 60e-6, kTolerance);
  EXPECT_NEAR(traced.model.forward_s(), 0, kTolerance);
  EXPECT_NEAR(traced.model.optimizer_s, 20e-6, kTolerance);
  EXPECT_THAT(traced.options.syncs, ElementsAre(true, true));
  EXPECT_EQ(traced.ranks, 2);
  ASSERT_EQ(traced.collectives.size(), 1U);
  EXPECT_EQ(traced.collectives[0].bytes, 4e6);
  EXPECT_NEAR(traced.collectives[0].seconds, 70e-6, kTolerance);
}

TEST(TracedModel, ItsOwnStepIsPredictedAndTheOneWithoutTheExcess) {
  const TracedModel traced = traced_model({too_often().rank()});
  EXPECT_NEAR(traced.step_s, 280e-6, kTolerance);
  EXPECT_NEAR(predicted_s(traced, traced.options.syncs), 280e-6, kTolerance);
  EXPECT_NEAR(predicted_s(traced, {false, true}), 250e-6, kTolerance);
}

TEST(TracedModel, ALateRanksWaitsAreNoCostOfTheLink) {
  const RankEvents waits = too_often(GpuTrace(0), {100, 2130}).rank();
  const RankEvents is_late = too_often(GpuTrace(1), {2100, 2130}).rank();
  EXPECT_NEAR(traced_model({waits}).collectives[0].seconds, 2070e-6, kTolerance);
  EXPECT_NEAR(traced_model({waits, is_late}).collectives[0].seconds, 70e-6, kTolerance);
}

TEST(TracedModel, WhatCannotBeKnownIsRefused) {
  const auto refuses = [](const RankEvents& rank, const std::string& why) {
    EXPECT_THAT([&] { traced_model({rank}); }, ThrowsMessage<ConfigError>(HasSubstr(why)));
  };
  RankEvents rank = too_often().rank();
  rank.gpu.reset();
  refuses(rank, "ProfilerActivity.CUDA");
  rank = too_often().rank();
  rank.world_size = 1;
  refuses(rank, "how many ranks");
  rank = too_often().rank();
  for (watch::Event& event : rank.events) {
    if (event.kind == watch::EventKind::Forward) event.name = "FullyShardedDataParallel";
  }
  refuses(rank, "FullyShardedDataParallel");
  rank = too_often().rank();
  for (watch::Event& event : rank.events) event.bytes = -1;
  refuses(rank, "known bytes");
  refuses(GpuTrace().micro_batch(true).rank(), "no whole optimizer step");
}

}  // namespace
}  // namespace gradsync::predict
