#include <gmock/gmock.h>

#include "harness/report/tables.h"
#include "harness/summary/build_result.h"
#include "tests/harness/results/sample_run.h"

namespace gradsync::report {
namespace {

using nlohmann::json;
using results::TrialRecord;
using ::testing::ElementsAre;

// Notes on three cells of which those that `reasons` name have no times.
std::vector<std::string> notes_where(const std::map<std::string, std::string>& reasons) {
  std::vector<TrialRecord> trials;
  for (const char* strategy : {"baseline", "no_sync", "accumulate"}) {
    for (int launch = 0; launch < 4; ++launch) {
      const json cell = test::sample_cell("2x1_1gbit", strategy);
      TrialRecord trial = test::sample_trial("", cell, launch, {1.0});
      const auto reason = reasons.find(strategy);
      if (reason != reasons.end()) trial.model_info->refuse_times(reason->second);
      trials.push_back(std::move(trial));
    }
  }
  const auto result = summary::build_result(test::sample_context(), json::object(), trials);
  std::vector<std::string> lines;
  for (const std::string& line : notes(summary::parts_of(result).front()).items) {
    if (line.starts_with("No times")) lines.push_back(line);
  }
  return lines;
}

TEST(Notes, ARowWithoutTimesIsNamedWhereOthersHaveThem) {
  EXPECT_THAT(notes_where({{"no_sync", "rank 1 waited"}}),
              ElementsAre("No times for 2 nodes x 1 rank, 1 Gbit/s, no_sync: rank 1 waited."));
  EXPECT_THAT(notes_where({{"no_sync", "rank 1 waited"},
                           {"baseline", "rank 0 waited"},
                           {"accumulate", "rank 1 waited"}}),
              ElementsAre("No times for 2 nodes x 1 rank, 1 Gbit/s, baseline: rank 0 waited.",
                          "No times for 2 nodes x 1 rank, 1 Gbit/s, accumulate; 2 nodes x 1 rank, "
                          "1 Gbit/s, no_sync: rank 1 waited."));
}

TEST(Notes, WhatIsSoForAllRowsIsSaidOfTheirTopology) {
  const std::string why = "4 compute threads share 2 cores";
  EXPECT_THAT(notes_where({{"baseline", why}, {"no_sync", why}, {"accumulate", why}}),
              ElementsAre("No times for 2 nodes x 1 rank, 1 Gbit/s: " + why + "."));
}

TEST(Notes, SayThatNcclsTimesIncludeTheWaitForALateRank) {
  const auto lines_on = [](const char* backend) {
    json context = test::sample_context();
    context["backend"] = backend;
    const std::vector<TrialRecord> trials{
        test::sample_trial("", test::sample_cell("2x1_1gbit", "baseline"), 0, {1.0})};
    const auto result = summary::build_result(context, json::object(), trials);
    return notes(summary::parts_of(result).front()).items;
  };
  const auto on_late_ranks = ::testing::HasSubstr("wait for the last one to arrive");
  EXPECT_THAT(lines_on("nccl"), ::testing::Contains(on_late_ranks));
  EXPECT_THAT(lines_on("gloo"), ::testing::Not(::testing::Contains(on_late_ranks)));
}

TEST(Notes, SayWhatMicroBatchesWeigh) {
  const auto trial = [](const char* strategy, const char* kind, double most) {
    TrialRecord record = test::sample_trial("", test::sample_cell("2x1_1gbit", strategy), 0, {1.0});
    record.account = results::TrialAccount{kind, "words", 1, most, 1e-7, 1, 1, 1e-7, 8, 6};
    return record;
  };
  const std::vector<TrialRecord> trials{trial("baseline", "equal", 1.0001),
                                        trial("no_sync", "equal", 1.002),
                                        trial("accumulate", "rounded", 1.01)};
  const auto result = summary::build_result(test::sample_context(), json::object(), trials);
  const auto items = notes(summary::parts_of(result).front()).items;
  EXPECT_THAT(items, ::testing::Contains("Gradients, in 2 of 3 cells: all micro-batches of all "
                                         "ranks weigh the same within 0.2 %."));
  EXPECT_THAT(items, ::testing::Contains("Gradients, in 1 of 3 cells: words."));
}

}  // namespace
}  // namespace gradsync::report
