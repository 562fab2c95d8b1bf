// How often the printed intervals hold the truth: made trials, the whole way from the lines of
// trials.jsonl to the table and the CSV.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "harness/report/formats.h"
#include "harness/results/store.h"
#include "harness/stats/interval.h"
#include "harness/summary/build_result.h"
#include "tests/harness/results/sample_run.h"
#include "tests/harness/stats/normal.h"

namespace gradsync::report {
namespace {

namespace fs = std::filesystem;

using nlohmann::json;
using results::TrialRecord;
using test::Normal;
using test::sample_cell;

constexpr int kCells = 2000;       // for each number of launches
constexpr int kCellsOfARun = 100;  // a plan of so many has pages of a usual length
constexpr double kBaselineS = 26;  // with two decimals a ratio of 1.3 is printed to a tenth of its
constexpr double kNoSyncS = 20;    // interval's width

// Both strategies of one cell, whose steps vary by launch, by block and one by one.
void add_cell(std::vector<TrialRecord>& trials, int cell, int launches, Normal& normal) {
  for (int launch = 0; launch < launches; ++launch) {
    const double of_launch = 1 + 0.1 * normal();
    for (const auto& [strategy, mean_s] :
         {std::pair{"baseline", kBaselineS}, std::pair{"no_sync", kNoSyncS}}) {
      json parameters = sample_cell("2x1_1gbit", strategy);
      parameters["micro_batch_size"] = cell + 1;
      const double of_block = of_launch + 0.05 * normal();
      std::vector<double> step_s;
      for (int step = 0; step < 3; ++step) {
        step_s.push_back(mean_s * (of_block + 0.05 * normal()));
      }
      trials.push_back(test::sample_trial("", parameters, launch, step_s));
      trials.back().order = static_cast<int>(trials.size());
      for (results::RankRecord& rank : trials.back().ranks) {
        rank.timeline_events.clear();
        rank.timeline_phases.clear();
      }
    }
  }
}

// Writes the trials as a run does and reads them again.
std::vector<TrialRecord> through_a_file(const std::vector<TrialRecord>& trials) {
  const fs::path directory = fs::path(::testing::TempDir()) / "interval_coverage";
  fs::create_directories(directory);
  std::ofstream file(directory / results::kTrialsFile);
  for (const TrialRecord& trial : trials) file << json(trial).dump() << "\n";
  file.close();
  auto read = results::read_trials(directory.string());
  fs::remove_all(directory);
  return read;
}

struct Held {
  int of_times = 0;
  int of_slowdowns = 0;
};

// The columns of a CSV line by name; none of ours holds a comma in quotes.
std::vector<std::map<std::string, std::string>> lines_of(const std::string& csv) {
  std::istringstream text(csv);
  std::vector<std::string> heads;
  std::vector<std::map<std::string, std::string>> lines;
  for (std::string line; std::getline(text, line);) {
    std::istringstream fields(line);
    std::vector<std::string> values;
    for (std::string field; std::getline(fields, field, ',');) values.push_back(field);
    if (heads.empty()) {
      heads = values;
      continue;
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i == 0) lines.emplace_back();
      lines.back()[heads[i]] = values[i];
    }
  }
  return lines;
}

void count_times(const std::string& csv, Held& held) {
  for (const auto& line : lines_of(csv)) {
    if (line.at("strategy") != "no_sync") continue;
    const stats::Interval interval{std::stod(line.at("step_ci95_lo_s")),
                                   std::stod(line.at("step_ci95_hi_s"))};
    held.of_times += interval.contains(kNoSyncS) ? 1 : 0;
  }
}

// As a reader of the table sees them: "1.30x [1.21, 1.39]".
void count_slowdowns(const std::string& page, Held& held) {
  static const std::regex row(R"(\| baseline +\|.*x \[([0-9.]+), ([0-9.]+)\])");
  for (std::sregex_iterator found(page.begin(), page.end(), row), end; found != end; ++found) {
    const stats::Interval interval{std::stod((*found)[1]), std::stod((*found)[2])};
    held.of_slowdowns += interval.contains(kBaselineS / kNoSyncS) ? 1 : 0;
  }
}

TEST(PrintedIntervals, HoldTheTruthIn95PercentOfCells) {
  for (const int launches : {3, 4, 8}) {
    Normal normal(static_cast<std::uint64_t>(launches));
    Held held;
    for (int first = 0; first < kCells; first += kCellsOfARun) {
      std::vector<TrialRecord> trials;
      for (int cell = first; cell < first + kCellsOfARun; ++cell) {
        add_cell(trials, cell, launches, normal);
      }
      const auto result =
          summary::build_result(test::sample_context(), json::object(), through_a_file(trials));
      count_times(result_csv(result), held);
      count_slowdowns(result_markdown(result, {}, {}), held);
    }
    for (const int count : {held.of_times, held.of_slowdowns}) {
      const double share = static_cast<double>(count) / kCells;
      EXPECT_GE(share, 0.93) << launches << " launches";
      EXPECT_LE(share, 0.97) << launches << " launches";
    }
    fmt::print(
        "{} launches, {} cells: the truth is held by {} intervals of times and {} of "
        "slowdowns\n",
        launches, kCells, held.of_times, held.of_slowdowns);
  }
}

}  // namespace
}  // namespace gradsync::report
