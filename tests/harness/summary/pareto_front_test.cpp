// Covers: front_table.cpp.
#include "harness/summary/pareto_front.h"

#include <gmock/gmock.h>

#include "harness/report/findings.h"
#include "harness/report/tables.h"
#include "harness/summary/build_result.h"
#include "harness/text/blocks.h"
#include "tests/harness/results/sample_run.h"

namespace gradsync::summary {
namespace {

using nlohmann::json;
using results::ParetoFront;
using results::TrialRecord;
using test::sample_cell;
using test::sample_context;
using test::sample_trial;
using ::testing::HasSubstr;

constexpr std::int64_t kMiB = 1 << 20;

struct Way {
  std::string strategy;
  json levers;
  double step_s;
  std::int64_t peak_bytes;
};

// Three launches, each 10 % slower throughout than the one before.
std::vector<TrialRecord> trials_of_ways(const std::vector<Way>& ways) {
  std::vector<TrialRecord> trials;
  for (const int launch : {0, 1, 2}) {
    for (const Way& way : ways) {
      json cell = sample_cell("2x1_1gbit", way.strategy);
      cell.update(way.levers);
      const double step_s = way.step_s * (1 + 0.1 * launch);
      TrialRecord trial = sample_trial("", cell, launch, {step_s, step_s});
      for (auto& rank : trial.ranks) rank.peak_allocated_bytes = way.peak_bytes;
      trials.push_back(std::move(trial));
    }
  }
  return trials;
}

results::Result result_of_ways(const std::vector<Way>& ways) {
  return build_result(sample_context(), json::object(), trials_of_ways(ways));
}

std::vector<bool> on_front(const ParetoFront& front) {
  std::vector<bool> flags;
  for (const results::FrontPoint& point : front.points) flags.push_back(point.on_front);
  return flags;
}

const json kDefaults = json::object();
const json kRecomputed = {{"activation_checkpointing", "full"}};
const json kViews = {{"gradient_as_bucket_view", true}};

const std::vector<Way> kWays{{"baseline", kDefaults, 4, 400 * kMiB},
                             {"no_sync", kDefaults, 2, 400 * kMiB},
                             {"no_sync", kRecomputed, 3, 200 * kMiB},
                             {"no_sync", kViews, 3.5, 300 * kMiB}};

TEST(ParetoFront, APointIsOnItUnlessAnotherHoldsAsLittleAndIsAsFast) {
  const auto result = result_of_ways(kWays);
  ASSERT_EQ(result.fronts.size(), 1U);
  const ParetoFront& front = result.fronts[0];
  EXPECT_EQ(on_front(front), (std::vector{true, false, true, false})) << "by peak, then by time";
  EXPECT_EQ(front.points[0].peak_allocated_bytes, 200 * kMiB);
  EXPECT_EQ(front.points[2].step_s, front.fastest().step_s);
  EXPECT_EQ(front.choices, 6U);
  EXPECT_NEAR(front.points[0].vs_fastest->ratio, 1.5, 1e-9) << "round by round";
  EXPECT_FALSE(front.cell.has("strategy") || front.cell.has("gradient_as_bucket_view"));
  EXPECT_EQ(json(result)["fronts"][0]["points"][1]["on_front"], false);
}

TEST(ParetoFront, EqualsAreThereOnce) {
  const auto front =
      result_of_ways({{"no_sync", kDefaults, 2, kMiB}, {"no_sync", kViews, 2, kMiB}}).fronts;
  EXPECT_EQ(on_front(front.at(0)), (std::vector{true, false}));
}

TEST(ParetoFront, OtherWorkHasAFrontOfItsOwn) {
  const json other = {{"accumulation_steps", 1}};
  json other_full = kRecomputed;
  other_full.update(other);
  const auto fronts = result_of_ways({{"no_sync", kDefaults, 2, 2 * kMiB},
                                      {"no_sync", kRecomputed, 3, kMiB},
                                      {"no_sync", other, 0.5, kMiB},
                                      {"no_sync", other_full, 0.7, kMiB}})
                          .fronts;
  ASSERT_EQ(fronts.size(), 2U);
  EXPECT_EQ(fronts[0].cell.accumulation_steps(), 1);
  EXPECT_EQ(on_front(fronts[0]), (std::vector{true, false}));
  EXPECT_EQ(on_front(fronts[1]), (std::vector{true, true}));
}

TEST(ParetoFront, WhatRoundsGradientsIsOtherWork) {
  const auto fronts = result_of_ways({{"no_sync", kDefaults, 2, kMiB},
                                      {"no_sync", {{"compression", "fp16"}}, 1, kMiB}})
                          .fronts;
  EXPECT_TRUE(fronts.empty());
}

TEST(ParetoFront, StrategiesAloneMakeNone) {
  EXPECT_TRUE(
      result_of_ways({{"baseline", kDefaults, 4, kMiB}, {"no_sync", kDefaults, 2, 2 * kMiB}})
          .fronts.empty());
}

TEST(ParetoFront, WhatDidNotEndWellIsNotOnIt) {
  auto trials = trials_of_ways(kWays);
  for (TrialRecord& trial : trials) {
    if (trial.cell.has("activation_checkpointing")) trial.status = results::Status::Oom;
  }
  const auto result = build_result(sample_context(), json::object(), trials);
  EXPECT_EQ(result.fronts.at(0).points.size(), 3U);
}

// Six pairs to choose from, against one.
TEST(ParetoFront, AnIntervalHoldsForAllPairsAtOnce) {
  const auto width_among = [](const std::vector<Way>& ways) {
    auto trials = trials_of_ways(ways);
    for (TrialRecord& trial : trials) {
      if (trial.cell.has("activation_checkpointing")) {
        test::stretch(trial, 1 + 0.01 * trial.launch);
      }
    }
    const auto result = build_result(sample_context(), json::object(), trials);
    const auto interval = *result.fronts.at(0).points.at(0).vs_fastest->ci95;
    return interval.hi - interval.lo;
  };
  EXPECT_GT(width_among(kWays), 2 * width_among({kWays[1], kWays[2]}));
}

TEST(ParetoFront, ThePageSaysWhatTheLeastMemoryCosts) {
  const auto result = result_of_ways(kWays);
  const PartView part = std::move(parts_of(result).at(0));
  EXPECT_EQ(text::to_markdown(report::front_tables(part)),
            R"(Memory against time at accumulation 4: 2 of 4 ways are on the front, by their means.
Intervals hold for all 6 pairs of ways at once.

| from a budget of | the fastest way                             | s/step |          x fastest |
|-----------------:|:--------------------------------------------|-------:|-------------------:|
|        200.0 MiB | DDP, no_sync, activation_checkpointing full |  3.300 | 1.50x [1.50, 1.50] |
|        400.0 MiB | DDP, no_sync                                |  2.200 |              1.00x |
)");
  EXPECT_THAT(report::front_findings(part),
              ::testing::ElementsAre(
                  "At accumulation 4, in 200.0 MiB the fastest is DDP, no_sync, "
                  "activation_checkpointing full, 1.50x [1.50, 1.50] the time of DDP, no_sync, "
                  "which needs 400.0 MiB."));
}

TEST(ParetoFront, WhereOneIsBestInBothThatIsSaid) {
  const auto result =
      result_of_ways({{"no_sync", kDefaults, 3, 2 * kMiB}, {"no_sync", kRecomputed, 2, kMiB}});
  const PartView part = std::move(parts_of(result).at(0));
  EXPECT_THAT(report::front_findings(part).at(0),
              HasSubstr("DDP, no_sync, activation_checkpointing full holds least (1.0 MiB) and is "
                        "the fastest of 2 ways."));
}

}  // namespace
}  // namespace gradsync::summary
