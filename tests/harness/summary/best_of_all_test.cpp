// Covers: sweep_finding.cpp.
#include "harness/summary/best_of_all.h"

#include <gmock/gmock.h>

#include "harness/report/findings.h"
#include "harness/summary/build_result.h"
#include "harness/text/blocks.h"
#include "tests/harness/report/golden.h"
#include "tests/harness/results/sample_run.h"

namespace gradsync::summary {

using text::Sentences;

namespace {

using nlohmann::json;
using results::TrialRecord;
using test::sample_cell;
using test::sample_context;
using test::sample_trial;

struct Row {
  std::string strategy;
  json options;
  double step_s;
};

// Three launches, each 10 % slower throughout than the one before.
std::vector<TrialRecord> trials_of(const std::vector<Row>& rows) {
  std::vector<TrialRecord> trials;
  for (const int launch : {0, 1, 2}) {
    for (const Row& row : rows) {
      json cell = sample_cell("2x1_1gbit", row.strategy);
      cell.update(row.options);
      const double step_s = row.step_s * (1 + 0.1 * launch);
      trials.push_back(sample_trial("", cell, launch, {step_s, step_s}));
    }
  }
  return trials;
}

results::Result result_of_rows(const std::vector<Row>& rows) {
  return build_result(sample_context(), json::object(), trials_of(rows));
}

std::string sentences(const results::Result& result) {
  return text::to_markdown({Sentences{report::best_findings(parts_of(result).at(0))}});
}

const json kNone = json::object();
const json kFp16 = {{"compression", "fp16"}};
const json kView = {{"gradient_as_bucket_view", true}};

TEST(BestOfAll, ACompressedOneHasTheFastestWithWholeGradientsBesideIt) {
  const auto result = result_of_rows({{"baseline", kNone, 4},
                                      {"no_sync", kNone, 2},
                                      {"baseline", kFp16, 3},
                                      {"no_sync", kFp16, 1},
                                      {"no_sync", kView, 1.5}});
  const json best = json(result)["best"];
  ASSERT_EQ(best.size(), 2U);
  EXPECT_EQ(best[0]["among"], "all");
  EXPECT_EQ(best[0]["cell"]["compression"], "fp16");
  EXPECT_EQ(best[0]["cell"]["strategy"], "no_sync");
  EXPECT_EQ(best[0]["of"], 5);
  EXPECT_EQ(best[0]["choices"], 10) << "five cells against two with every option at its default";
  EXPECT_EQ(best[0]["launches"], 3);
  EXPECT_NEAR(best[0]["ratio"], 0.5, 1e-9) << "in the same rounds: no launch disturbs it";
  EXPECT_EQ(best[1]["among"], "whole_gradients");
  EXPECT_EQ(best[1]["of"], 3);
  EXPECT_NEAR(best[1]["ratio"], 0.75, 1e-9);
  EXPECT_FALSE(best[1]["vs"].contains("compression"));
  test::expect_phrases("summary", {sentences(result)});
}

TEST(BestOfAll, WhereNoOptionHelpsTheDefaultsAreTheBest) {
  const auto result =
      result_of_rows({{"baseline", kNone, 4}, {"no_sync", kNone, 1}, {"no_sync", kView, 2}});
  ASSERT_EQ(result.best.size(), 1U);
  EXPECT_EQ(result.best[0].cell, result.best[0].vs);
  test::expect_phrases("summary", {sentences(result)});
}

// The winner of many is compared at a level that holds for each of them.
TEST(BestOfAll, TheIntervalIsCorrectedForTheChoice) {
  const auto width_among = [](int others) {
    std::vector<Row> rows{{"no_sync", kNone, 2}, {"no_sync", kView, 1}};
    for (int i = 0; i < others; ++i) {
      rows.push_back({"no_sync", {{"bucket_cap_bytes", (i + 1) << 20}}, 3.0 + i});
    }
    auto trials = trials_of(rows);
    for (TrialRecord& trial : trials) {
      const bool is_best = trial.cell.has("gradient_as_bucket_view");
      if (is_best) test::stretch(trial, 1 + 0.01 * trial.launch);
    }
    const auto result = build_result(sample_context(), json::object(), trials);
    const results::Best& best = result.best.at(0);
    EXPECT_EQ(best.choices, static_cast<std::size_t>(others + 2));
    return best.ci95->hi - best.ci95->lo;
  };
  EXPECT_GT(width_among(8), 2 * width_among(0));
}

TEST(BestOfAll, WithoutAnIntervalItSaysOfHowManyItIsTheFastest) {
  auto trials = trials_of({{"no_sync", kNone, 2}, {"no_sync", kView, 1}});
  std::erase_if(trials, [](const TrialRecord& trial) { return trial.launch > 0; });
  test::expect_phrases("summary",
                       {sentences(build_result(sample_context(), json::object(), trials))});
}

TEST(BestOfAll, OtherWorkIsNotCompared) {
  const auto result =
      result_of_rows({{"no_sync", kNone, 4},
                      {"no_sync", {{"accumulation_steps", 1}}, 1},
                      {"no_sync", {{"accumulation_steps", 1}, {"compression", "bf16"}}, 2}});
  ASSERT_EQ(result.best.size(), 1U) << "with 4 micro-batches nothing varies";
  EXPECT_EQ(result.best[0].cell.accumulation_steps(), 1);
  EXPECT_EQ(result.best[0].of, 2U);
  EXPECT_THAT(sentences(result), ::testing::HasSubstr("1 Gbit/s, accumulation_steps 1: no_sync, "));
}

TEST(BestOfAll, ThereIsNoneWithoutDefaultsOrWithoutOptions) {
  EXPECT_TRUE(result_of_rows({{"baseline", kNone, 4}, {"no_sync", kNone, 1}}).best.empty());
  EXPECT_TRUE(result_of_rows({{"no_sync", kFp16, 4}, {"no_sync", kView, 1}}).best.empty());
}

}  // namespace
}  // namespace gradsync::summary
