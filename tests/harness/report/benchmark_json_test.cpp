#include "harness/report/formats.h"

#include <gmock/gmock.h>

#include <set>

#include "harness/summary/build_result.h"
#include "tests/harness/results/sample_run.h"

namespace gradsync::report {
namespace {

using nlohmann::json;
using results::Status;
using test::sample_run;

json document_of(const test::SampleRun& run) {
  return benchmark_json(summary::build_result(run.context, run.plan, run.trials), run.trials);
}

std::vector<json> entries(const json& document, const std::string& run_name) {
  std::vector<json> found;
  for (const json& entry : document["benchmarks"]) {
    if (entry["run_name"] == run_name) found.push_back(entry);
  }
  return found;
}

// What compare.py reads of every entry, whatever its kind.
TEST(BenchmarkJson, HasTheFieldsThatComparePyReads) {
  const json document = document_of(sample_run());
  EXPECT_TRUE(document["context"].is_object());
  ASSERT_FALSE(document["benchmarks"].empty());
  for (const json& entry : document["benchmarks"]) {
    EXPECT_TRUE(entry["name"].is_string());
    EXPECT_TRUE(entry["run_name"].is_string());
    EXPECT_TRUE(entry["real_time"].is_number());
    EXPECT_TRUE(entry["cpu_time"].is_number());
    EXPECT_EQ(entry["time_unit"], "ms");
    EXPECT_TRUE(entry["run_type"] == "iteration" || entry["run_type"] == "aggregate");
    EXPECT_EQ(entry["run_type"] == "aggregate", entry.contains("aggregate_name"));
  }
}

TEST(BenchmarkJson, EveryTimedStepIsARepetition) {
  const auto cell = entries(document_of(sample_run()), "slowdown_table/your_machine/1x2/baseline");
  ASSERT_EQ(cell.size(), 16U + 4U);
  std::set<int> indices;
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(cell[i]["run_type"], "iteration");
    EXPECT_EQ(cell[i]["repetitions"], 16);
    indices.insert(cell[i]["repetition_index"].get<int>());
  }
  EXPECT_EQ(indices.size(), 16U);
  EXPECT_EQ(cell[16]["name"], "slowdown_table/your_machine/1x2/baseline_mean");
  EXPECT_EQ(cell[18]["aggregate_name"], "stddev");
}

TEST(BenchmarkJson, AggregatesAreThoseOfTheResult) {
  auto run = sample_run();
  const auto result = summary::build_result(run.context, run.plan, run.trials);
  const json document = benchmark_json(result, run.trials);
  const results::CellResult& first = result.cells.at(0);
  const std::string name = "slowdown_table/your_machine/" + first.cell.topology() + "/baseline";
  const auto cell = entries(document, name);
  EXPECT_NEAR(cell[16]["real_time"].get<double>(), 1e3 * first.step_s->mean, 1e-9);
  EXPECT_NEAR(cell[18]["real_time"].get<double>(), 1e3 * *first.step_s->sd, 1e-9);
}

TEST(BenchmarkJson, ACellWithoutTimesIsNamedAndNotAZero) {
  auto run = sample_run();
  std::erase_if(run.trials, [](const auto& trial) { return trial.part != "your_machine"; });
  for (auto& trial : run.trials) {
    trial.status = Status::Failed;
    trial.reason = "killed by signal 9";
  }
  const json document = document_of(run);
  EXPECT_TRUE(document["benchmarks"].empty());
  EXPECT_EQ(document["context"]["not_measured"].size(), 8U);
  EXPECT_EQ(document["context"]["not_measured"]["slowdown_table/your_machine/1x2/no_sync"],
            "failed: killed by signal 9");
}

}  // namespace
}  // namespace gradsync::report
