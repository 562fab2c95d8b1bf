// Covers: csv.cpp, guide_table.cpp, labels.cpp.
#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>

#include "harness/report/formats.h"
#include "harness/report/tables.h"
#include "harness/summary/build_result.h"
#include "harness/text/labels.h"
#include "tests/harness/results/sample_run.h"

namespace gradsync::report {
namespace {

using nlohmann::json;
using test::sample_cell;
using test::sample_run;
using test::sample_trial;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Csv, OneLinePerCellAndEveryLineAsManyFields) {
  const auto run = sample_run();
  const std::string text = result_csv(summary::build_result(run.context, run.plan, run.trials));
  EXPECT_THAT(text, StartsWith("part,accumulation_steps,"));
  std::istringstream lines(text);
  int count = 0;
  const auto commas =
      std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(text.find('\n')), ',');
  EXPECT_GT(commas, 40);
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_EQ(std::count(line.begin(), line.end(), ','), commas) << line;
    EXPECT_EQ(line.back(), '\r');
  }
  EXPECT_EQ(count, 1 + 16);
}

TEST(Csv, UnknownIsEmptyAndTextIsQuoted) {
  const json cell = sample_cell("1x2", "no_sync");
  const std::string text =
      result_csv(summary::build_result(json::object(), {}, {}, {{"", cell, "no \"ip\", no tc"}}));
  EXPECT_THAT(text, HasSubstr(",skipped,\"no \"\"ip\"\", no tc\",real,0,0,,,"));
}

TEST(Labels, ATopologyIsDescribedByWhateverIsKnown) {
  const auto label = [](const json& context, const std::string& name) {
    return text::topology_label(context, name, {}).text();
  };
  EXPECT_EQ(label(test::sample_context(), "2x1_1gbit"), "2 nodes x 1 rank, 1 Gbit/s");
  EXPECT_EQ(label(json::object(), "t4_1x2"), "1 node x 2 ranks");
  EXPECT_EQ(label(json::object(), "my_cluster"), "my_cluster");
}

TEST(Labels, DecimalsSuitTheShortestStep) {
  EXPECT_EQ(text::decimals_for({2.0}), 3);
  EXPECT_EQ(text::decimals_for({2.0, 0.0123}), 4);
  EXPECT_EQ(text::decimals_for({}), 3);
}

PublishedSlowdowns published_reference() {
  PublishedSlowdowns table;
  table.published["multi_node"] = {{"baseline", {2.0, 0.01}},
                                   {"no_sync_improper", {2.0, 0.01}},
                                   {"no_sync", {1.0, 0.015}},
                                   {"accumulate", {1.0, 0.015}}};
  table.raw_runs["multi_node"] = {{"baseline", {1.9, 2.0, 2.1}},
                                  {"no_sync_improper", {1.9, 2.0, 2.1}},
                                  {"no_sync", {0.9, 1.0, 1.1}},
                                  {"accumulate", {0.9, 1.0, 1.1}}};
  return table;
}

// The guide's table of cells with a step of so many seconds each.
std::string table_of_cells(const std::vector<std::pair<json, double>>& cells) {
  std::vector<results::TrialRecord> trials;
  for (const auto& [cell, step_s] : cells) {
    trials.push_back(sample_trial("", cell, 0, {step_s}));
  }
  const auto result = summary::build_result(test::sample_context(), {}, trials);
  return text::to_markdown(guide_table(summary::parts_of(result).front(), published_reference()));
}

json paced_cell(const std::string& strategy) {
  return sample_cell("t4_2x1", strategy, "paced_bert_base_t4", 50);
}

TEST(GuideTable, SaysWhichCellsMissThePublishedRuns) {
  const std::string table =
      table_of_cells({{paced_cell("baseline"), 2.2}, {paced_cell("no_sync"), 1.3}});
  // Half widths 4.303 x 0.1 / sqrt(3) = 0.248; errors 10 % and 30 %.
  EXPECT_THAT(table, HasSubstr("[1.75, 2.25] inside"));
  EXPECT_THAT(table, HasSubstr("[0.75, 1.25] OUTSIDE"));
  EXPECT_THAT(table, HasSubstr("1 of 2 measured means"));
  EXPECT_THAT(table, HasSubstr("mean absolute error over the cells 20.0 %"));
  EXPECT_THAT(table, HasSubstr("1.00±0.015s"));
}

TEST(GuideTable, WhatTheGuideDidNotRunIsNotHeldAgainstItsRuns) {
  for (const json& other : {json{{"accumulation_steps", 8}}, json{{"compression", "fp16"}},
                            json{{"bucket_cap_bytes", 1 << 20}}}) {
    json baseline = paced_cell("baseline");
    json no_sync = paced_cell("no_sync");
    baseline.update(other);
    no_sync.update(other);
    const std::string table = table_of_cells({{baseline, 2.2}, {no_sync, 1.3}});
    EXPECT_THAT(table, HasSubstr("Multi-Node")) << other;
    EXPECT_EQ(table.find("published"), std::string::npos) << other;
  }
}

// Plan guides_setup: the published row is there to look at, and another machine is not judged by
// it.
TEST(GuideTable, TheGuidesTrainingElsewhereStandsBesideItsRows) {
  std::vector<std::pair<json, double>> cells;
  for (const char* strategy : {"baseline", "no_sync"}) {
    json cell = sample_cell("2x1_1gbit", strategy, "bert_base");
    cell.update({{"micro_batch_size", 16}, {"sequence_length", 128}, {"lengths", "mrpc"}});
    cells.emplace_back(cell, 0.3);
  }
  const std::string table = table_of_cells(cells);
  EXPECT_THAT(table, HasSubstr("published, of two T4"));
  EXPECT_THAT(table, HasSubstr("2.00±0.01s"));
  EXPECT_EQ(table.find("95 %"), std::string::npos);
  for (auto& [cell, step_s] : cells) cell["micro_batch_size"] = 8;
  EXPECT_EQ(table_of_cells(cells).find("published"), std::string::npos);
}

TEST(GuideTable, ASweepOverAccumulationHasNone) {
  json twice = paced_cell("no_sync");
  twice["accumulation_steps"] = 8;
  EXPECT_EQ(
      table_of_cells({{paced_cell("baseline"), 2.2}, {paced_cell("no_sync"), 1.3}, {twice, 2.4}}),
      "");
}

TEST(GuideTable, OtherMachinesGetNoPublishedRow) {
  const auto run = sample_run();
  const auto result = summary::build_result(run.context, run.plan, run.trials);
  PublishedSlowdowns reference;
  reference.published["multi_node"] = {};
  EXPECT_EQ(text::to_markdown(guide_table(summary::parts_of(result).front(), reference))
                .find("published"),
            std::string::npos);
}

}  // namespace
}  // namespace gradsync::report
