// The shortest possible step, worked by hand, and the cells that have one.
#include "harness/summary/lower_bound.h"

#include <gmock/gmock.h>

#include "harness/report/formats.h"
#include "harness/summary/build_result.h"
#include "tests/harness/report/golden.h"
#include "tests/harness/results/sample_run.h"

namespace gradsync::summary {
namespace {

using nlohmann::json;
using results::TrialRecord;
using test::sample_cell;
using test::sample_trial;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(LowerBound, IsTheLargestOfWhatASynchronizedMicroBatchCannotDoWithout) {
  // Computation alone; all bytes after the first bucket; the last bucket after all computation.
  EXPECT_DOUBLE_EQ(least_step_s({.micro_batch_s = 10, .first_bucket_s = 2, .wire_s = 3}, 4, 1), 40);
  EXPECT_DOUBLE_EQ(least_step_s({.micro_batch_s = 10, .first_bucket_s = 2, .wire_s = 20}, 4, 1),
                   30 + 22);
  EXPECT_DOUBLE_EQ(
      least_step_s({.micro_batch_s = 10, .first_bucket_s = 2, .wire_s = 9, .last_bucket_wire_s = 4},
                   4, 4),
      4 * 14);
  EXPECT_DOUBLE_EQ(least_step_s({.micro_batch_s = 10, .optimizer_s = 3}, 4, 4), 43);
}

json context_with_link(double free_burst_bytes = 0) {
  json context = test::sample_context();
  context["links"]["2x1_1gbit / 1"] = {{"measured_payload_bits_per_s", 9.56e8},
                                       {"free_burst_bytes", free_burst_bytes}};
  return context;
}

results::Result result_with(const std::vector<const char*>& strategies, const json& context,
                            const std::string& wrapper = "ddp") {
  std::vector<TrialRecord> trials;
  for (int launch = 0; launch < 2; ++launch) {
    for (const char* strategy : strategies) {
      json cell = sample_cell("2x1_1gbit", strategy);
      cell["wrapper"] = wrapper;
      trials.push_back(sample_trial("", cell, launch, {1.0}));
    }
  }
  return build_result(context, json::object(), trials);
}

// The sample's ranks compute 96 and 96.5 ms a micro-batch and send 14 buckets of 618,857 bytes, the
// first one 37.1 ms after the slower one's forward began; the optimizer takes 2 % of the step.
TEST(LowerBound, OfARowIsMadeOfItsLaunchesAndItsLink) {
  const auto result = result_with({"baseline", "no_sync"}, context_with_link());
  const json cells = json(result)["cells"];
  const json& baseline = cells[0]["lower_bound"];
  const double c = 0.0965;
  const double r = 0.0325 + 0.064 / 14;
  const double wire = 14 * 618857 * 8 / 9.56e8;
  EXPECT_NEAR(baseline["micro_batch_s"].get<double>(), c, 1e-9);
  EXPECT_NEAR(baseline["first_bucket_s"].get<double>(), r, 1e-9);
  EXPECT_NEAR(baseline["wire_s"].get<double>(), wire, 1e-9);
  EXPECT_NEAR(baseline["last_bucket_wire_s"].get<double>(), wire / 14, 1e-9);
  EXPECT_NEAR(baseline["optimizer_s"].get<double>(), 0.02, 1e-9);
  EXPECT_NEAR(baseline["step_s"].get<double>(), 0.02 + 4 * (r + wire), 1e-9);
  const json& once = cells[1]["lower_bound"];
  EXPECT_NEAR(once["step_s"].get<double>(), 0.02 + 3 * c + r + wire, 1e-9);
  EXPECT_NEAR(once["step_over_bound"].get<double>(), 1 / once["step_s"].get<double>(), 1e-9);
  const std::string page = report::result_markdown(result, {}, {});
  EXPECT_THAT(page, HasSubstr("| step / bound |"));
  EXPECT_THAT(page, HasSubstr("|         2.18 |"));
}

TEST(LowerBound, WhatAnIdleLinkLetsThroughAtOnceCostsNoTime) {
  const auto result = result_with({"no_sync"}, context_with_link(700'000));
  const auto& bound = result.cells.at(0).lower_bound;
  EXPECT_EQ(bound->last_bucket_wire_s, 0);
  EXPECT_NEAR(bound->wire_s, (14 * 618857 - 700'000) * 8 / 9.56e8, 1e-9);
}

TEST(LowerBound, IsNotKnownWithoutALinkAnUnsynchronizedMicroBatchOrDdp) {
  const auto reason = [](const results::Result& result) {
    EXPECT_FALSE(result.cells.at(0).lower_bound);
    return result.cells.at(0).lower_bound.why_not();
  };
  const auto unlinked = result_with({"no_sync"}, test::sample_context());
  test::expect_phrases("summary", {reason(unlinked)});
  EXPECT_THAT(report::result_markdown(unlinked, {}, {}), Not(HasSubstr("bound")));
  EXPECT_THAT(reason(result_with({"baseline"}, context_with_link())),
              HasSubstr("no launch recorded an unsynchronized micro-batch"));
  test::expect_phrases("summary", {reason(result_with({"no_sync"}, context_with_link(), "fsdp"))});
}

TEST(LowerBound, LeavesOutRowsWhoseTimesAreNotGiven) {
  TrialRecord refused = sample_trial("", sample_cell("2x1_1gbit", "no_sync"), 0, {1.0});
  refused.model_info->refuse_times("rank 1 waited for a core");
  const auto result =
      build_result(context_with_link(), json::object(),
                   {sample_trial("", sample_cell("2x1_1gbit", "baseline"), 0, {1.0}), refused});
  EXPECT_THAT(result.cells.at(0).lower_bound.why_not(),
              HasSubstr("no launch recorded an unsynchronized micro-batch, with times"));
}

}  // namespace
}  // namespace gradsync::summary
