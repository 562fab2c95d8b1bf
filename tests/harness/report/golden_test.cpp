// The pages as people see them, to the letter. GRADSYNC_ACCEPT_GOLDEN=1 rewrites the files: read
// the difference before you commit it.
// Covers: attribution_table.cpp, column_text.cpp, columns.cpp, comparison_page.cpp,
// comparison_tables.cpp, markdown.cpp, published.cpp, search_page.cpp,
// timed_steps.cpp.
#include <gmock/gmock.h>

#include <sstream>

#include "harness/report/comparison_page.h"
#include "harness/report/formats.h"
#include "harness/report/search_page.h"
#include "harness/report/tables.h"
#include "harness/summary/build_result.h"
#include "harness/summary/run_comparison.h"
#include "harness/text/text_width.h"
#include "tests/harness/report/golden.h"
#include "tests/harness/results/sample_run.h"
#include "tests/paths.h"

namespace gradsync::report {

using summary::FinishedRun;
using summary::Search;
using summary::SearchedCell;

namespace {

using nlohmann::json;
using results::Result;
using results::Status;
using results::TrialRecord;
using test::sample_run;
using test::SampleRun;

const std::string kGoldenDirectory = test::path_of("source") + "/tests/harness/report/golden/";

std::string page_of(const Result& result) {
  return result_markdown(result, read_references(test::path_of("source") + "/results/reference"),
                         {.raw_directory = "results/runs/sample/"});
}

std::string page_of(const SampleRun& run) {
  return page_of(summary::build_result(run.context, run.plan, run.trials));
}

void expect_golden(const std::string& name, const std::string& text) {
  test::expect_golden(kGoldenDirectory + name, text);
}

std::size_t widest_table_row(const std::string& text) {
  std::size_t widest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("|")) widest = std::max(widest, text::display_width(line));
  }
  return widest;
}

TEST(GoldenTable, OfAWholeRun) {
  const std::string page = page_of(sample_run());
  expect_golden("slowdown_table.md", page);
  EXPECT_LE(widest_table_row(page), 120U);
}

TEST(GoldenTable, WhereTwoNodesCannotRun) {
  SampleRun run = sample_run();
  std::erase_if(run.trials, [](const TrialRecord& trial) {
    return trial.part != "your_machine" || trial.launch > 0;
  });
  for (TrialRecord& trial : run.trials) {
    if (trial.cell.topology() == "1x2") continue;
    trial.status = Status::Skipped;
    trial.reason =
        "user namespaces are forbidden here: run as root, or set "
        "kernel.unprivileged_userns_clone=1";
    trial.step_s.clear();
    trial.ranks.clear();
  }
  expect_golden("skipped.md", page_of(run));
}

TEST(GoldenTable, WhereATrialFailedAndTimesMeanNothing) {
  SampleRun run = sample_run();
  std::erase_if(run.trials, [](const TrialRecord& trial) { return trial.part != "your_machine"; });
  for (TrialRecord& trial : run.trials) {
    if (trial.cell.topology() == "1x2") {
      trial.model_info->refuse_times("4 compute threads share 2 cores");
    } else if (trial.cell.strategy() == "baseline" && trial.launch == 1) {
      trial.status = Status::Timeout;
      trial.reason = "[rank 1/2 node1] no progress for 60 s in all_reduce #7";
    }
  }
  expect_golden("failed.md", page_of(run));
}

// Predictions as good as exact: a rank whose peak is 1 KiB more than foreseen.
Result with_predictions(Result result) {
  for (results::CellResult& cell : result.cells) {
    const auto& peak = cell.peak_allocated_bytes;
    cell.predicted_peak_allocated_bytes =
        peak ? *peak - (cell.part == "budget" ? 1024 : 0) : 318767104;
  }
  return result;
}

TEST(GoldenTable, OfMemory) {
  const SampleRun run = test::sample_memory_run();
  const std::string page =
      page_of(with_predictions(summary::build_result(run.context, run.plan, run.trials)));
  expect_golden("memory_sweep.md", page);
  EXPECT_LE(widest_table_row(page), 80U) << "fits a terminal";
}

TEST(GoldenTable, OfMemoryWithoutTimesAndPredictions) {
  SampleRun run = test::sample_memory_run();
  for (TrialRecord& trial : run.trials) {
    trial.model_info->refuse_times("4 compute threads share 2 cores");
  }
  expect_golden("memory_without_times.md", page_of(run));
}

TEST(GoldenTable, OfMixtralBesideThePublishedRows) {
  const std::string page = page_of(test::sample_mixtral_run());
  expect_golden("mixtral_8x7b.md", page);
  EXPECT_LE(widest_table_row(page), 80U) << "fits a terminal";
}

// The second rank's step begins 4 ms after the first's; two nodes are two hosts.
SampleRun run_of_two_hosts() {
  SampleRun run = sample_run();
  std::erase_if(run.trials, [](const TrialRecord& trial) { return trial.part != "your_machine"; });
  run.context["launcher"] = "torchrun";
  run.context["clocks"] = {{{"node", 0}, {"offset_s", 0.0}, {"error_s", 2e-6}},
                           {{"node", 1}, {"offset_s", 900.0}, {"error_s", 9.3e-6}}};
  for (TrialRecord& trial : run.trials) {
    for (auto& rank : trial.ranks) {
      rank.timeline_start_s = 50 + 0.004 * rank.rank + 900 * rank.node;
    }
  }
  return run;
}

TEST(GoldenTable, OfWhereAStepWent) {
  const SampleRun run = run_of_two_hosts();
  const Result result = summary::build_result(run.context, run.plan, run.trials);
  const std::string table = text::to_markdown(attribution_table(summary::parts_of(result).front()));
  expect_golden("attribution.md", table);
  EXPECT_LE(widest_table_row(table), 120U);
  EXPECT_NE(page_of(result).find(table), std::string::npos) << "it is part of the page";
}

// As if it had run units again in the first half of what was backward.
void run_again_in_backward(TrialRecord& trial) {
  for (auto& rank : trial.ranks) {
    for (std::size_t i = 0; i < rank.timeline_phases.size(); ++i) {
      results::TimelinePhase& phase = rank.timeline_phases[i];
      if (phase.phase != "backward") continue;
      results::TimelinePhase again = phase;
      again.phase = "recompute";
      again.end_s = phase.start_s = (phase.start_s + phase.end_s) / 2;
      rank.timeline_phases.insert(rank.timeline_phases.begin() + static_cast<std::ptrdiff_t>(i++),
                                  again);
    }
  }
}

TEST(GoldenTable, OfWhereAStepWentThatComputedAgain) {
  SampleRun run = run_of_two_hosts();
  std::erase_if(run.trials, [](const TrialRecord& trial) { return trial.launch > 0; });
  for (TrialRecord& trial : run.trials) run_again_in_backward(trial);
  const Result result = summary::build_result(run.context, run.plan, run.trials);
  const std::string table = text::to_markdown(attribution_table(summary::parts_of(result).front()));
  expect_golden("attribution_recompute.md", table);
  EXPECT_THAT(attribution_page(result), ::testing::HasSubstr("own compute, recompute = what hid"));
}

TEST(GoldenTable, OfWhereAStepWentByBucketAndRank) {
  SampleRun run = run_of_two_hosts();
  std::erase_if(run.trials, [](const TrialRecord& trial) {
    return trial.launch > 0 || trial.cell.topology() != "2x1_1gbit" ||
           !trial.cell.strategy().starts_with("no_sync");
  });
  for (TrialRecord& trial : run.trials) {
    if (trial.cell.strategy() != "no_sync_improper") continue;
    trial.ranks[1].timeline_start_s.reset();
  }
  expect_golden("attribution_by_bucket.md",
                attribution_page(summary::build_result(run.context, run.plan, run.trials)));
}

FinishedRun finished(const SampleRun& run, const std::string& directory) {
  return {directory, summary::build_result(run.context, run.plan, run.trials), run.trials};
}

// The sample run again: another torch, its baselines on two nodes 4 % slower, one cell less.
SampleRun later_run() {
  SampleRun run = sample_run();
  run.context["torch"] = "2.15.0";
  run.context["start_time"] = "2026-02-28T12:00:00Z";
  run.context["warnings"] = {"load average 1.80 on 2 CPU(s)"};
  std::erase_if(run.trials, [](const TrialRecord& trial) {
    return trial.cell.topology() == "t4_2x1" && trial.cell.strategy() == "accumulate";
  });
  for (TrialRecord& trial : run.trials) {
    if (trial.cell.topology() != "2x1_1gbit" || trial.cell.strategy() != "baseline") continue;
    test::stretch(trial, 1.04);
  }
  return run;
}

// As the self-test of one link comes out on an idle and on a busy host.
json link_that_carries(double payload_bits_per_s) {
  return {{"2x1_1gbit / 1", {{"measured_payload_bits_per_s", payload_bits_per_s}}}};
}

TEST(GoldenComparison, OfTwoRunsWhoseTimesCompare) {
  SampleRun first = sample_run();
  SampleRun second = later_run();
  first.context["links"] = link_that_carries(9.56e8);
  second.context["links"] = link_that_carries(8.4e8);
  const std::string page = comparison_markdown(summary::compare_runs(
      finished(first, "results/runs/first"), finished(second, "results/runs/second")));
  expect_golden("comparison.md", page);
  EXPECT_LE(widest_table_row(page), 120U);
}

TEST(GoldenComparison, OfTwoMachinesWithOneAllReduceMoreAndAFailedTrial) {
  SampleRun first = sample_run();
  SampleRun second = sample_run();
  for (SampleRun* run : {&first, &second}) {
    std::erase_if(run->trials,
                  [](const TrialRecord& trial) { return trial.part != "your_machine"; });
  }
  first.context["cpu_model"] = "Processor P";
  second.context["cpu_model"] = "Processor Q";
  second.context["host"] = "other";
  for (TrialRecord& trial : second.trials) {
    if (trial.cell.topology() != "1x2") continue;
    if (trial.cell.strategy() == "baseline") ++trial.ledger.per_step["all_reduce"].count;
    if (trial.cell.strategy() == "accumulate") {
      trial.status = Status::Failed;
      trial.reason = "[rank 1/2 node0] killed by signal 9";
    }
  }
  expect_golden("comparison_other_machine.md", comparison_markdown(summary::compare_runs(
                                                   finished(first, "results/runs/first"),
                                                   finished(second, "results/runs/second"))));
}

using Outcome = plan::Edge::Outcome;

SearchedCell searched_cell(const std::string& strategy, int accumulation_steps, Outcome outcome,
                           const std::string& reason) {
  SearchedCell cell;
  cell.cell =
      json{{"topology", "1x2"}, {"strategy", strategy}, {"accumulation_steps", accumulation_steps}};
  cell.to = 64;
  cell.outcome = outcome;
  cell.reason = reason;
  cell.probes.resize(2);
  return cell;
}

TEST(GoldenSearch, EveryOutcome) {
  Search search;
  search.plan = "sample";
  search.axis = "micro_batch_size";
  search.cells = {
      searched_cell("no_sync", 1, Outcome::Found,
                    "8 fits, 9 does not: oom: micro-batch 1, forward"),
      searched_cell("no_sync", 2, Outcome::AllFit, "64 fits: ..."),
      searched_cell("no_sync_improper", 1, Outcome::NoneFits, "1 does not fit: oom: ..."),
      searched_cell("sync_each_batch", 1, Outcome::NotMonotone,
                    "not monotone: 3 does not fit, 5 does"),
      searched_cell("sync_each_batch", 2, Outcome::Stopped, "micro_batch_size 4: timeout: ...")};
  search.cells.front().edge = 8;
  search.cells.front().peak_allocated_bytes = 3 << 20;
  expect_golden("search_largest.md", search_markdown(search, "results/runs/sample/"));
  search.axis = "memory_budget_bytes";
  search.wanted = plan::Wanted::Smallest;
  expect_golden("search_smallest.md", search_markdown(search, "results/runs/sample/"));
}

}  // namespace
}  // namespace gradsync::report
