// Two ranks whose every moment is written down, so that the cause of each second can be found by
// hand.
#include "harness/summary/attribution.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "harness/summary/build_result.h"
#include "tests/harness/report/golden.h"
#include "tests/harness/results/sample_run.h"

namespace gradsync::summary {
namespace {

using nlohmann::json;
using results::RankRecord;
using results::TimelineEvent;
using results::TimelinePhase;
using results::TrialRecord;

RankRecord rank_of(int rank, double start_s, double step_s, std::vector<TimelinePhase> phases,
                   std::vector<TimelineEvent> events) {
  RankRecord record;
  record.rank = rank;
  record.node = rank;
  record.step_s = {7.0, step_s};  // the timeline is that of the last one
  record.timeline_start_s = start_s;
  record.timeline_phases = std::move(phases);
  record.timeline_events = std::move(events);
  return record;
}

TimelineEvent bucket(int number, double start_s, double end_s) {
  return {"all_reduce", 400, 0, number, start_s, end_s};
}

TrialRecord trial_with(std::vector<RankRecord> ranks) {
  TrialRecord trial;
  trial.cell = test::sample_cell("2x1_1gbit", "baseline");
  trial.ranks = std::move(ranks);
  for (const RankRecord& rank : trial.ranks) trial.step_s = rank.step_s;
  return trial;
}

// The picture in attribution.h. Rank 0 waits from 1.0; rank 1, half a second ahead by the clock,
// issues the bucket when rank 0 counts 1.5; both have it at 2.0.
TrialRecord late_second_rank() {
  return trial_with(
      {rank_of(0, 100.0, 2.25,
               {{"backward", 0, 0, 1.0}, {"wait", 0, 1.0, 2.0}, {"optimizer", 0, 2.0, 2.25}},
               {bucket(0, 1.0, 2.0)}),
       rank_of(1, 99.5, 2.75,
               {{"backward", 0, 0, 2.0}, {"wait", 0, 2.0, 2.5}, {"optimizer", 0, 2.5, 2.75}},
               {bucket(0, 2.0, 2.5)})});
}

void expect_parts(const TimeParts& parts, double own_compute_s, double late_peer_s, double wire_s) {
  EXPECT_NEAR(parts.own_compute_s, own_compute_s, 1e-12);
  EXPECT_NEAR(parts.late_peer_s, late_peer_s, 1e-12);
  EXPECT_NEAR(parts.wire_s, wire_s, 1e-12);
}

TEST(Attribution, UntilTheLastRankHasIssuedItAWaitIsForThatRankThenForTheWire) {
  const AttributedStep step = attribute_step(late_second_rank(), {});
  ASSERT_EQ(step.ranks.size(), 2U) << step.unknown_because;
  expect_parts(step.ranks[0].parts, 1.25, 0.5, 0.5);
  expect_parts(step.ranks[1].parts, 2.25, 0, 0.5);
  EXPECT_EQ(step.ranks[0].collectives.at(0).last_rank, 1);
  EXPECT_DOUBLE_EQ(step.ranks[0].collectives.at(0).all_issued_s, 1.5);
  EXPECT_EQ(step.clock_error_s, 0);
}

TEST(Attribution, ComputeHidesACollectiveAndIsChargedToItAsSuch) {
  TrialRecord trial = late_second_rank();
  // Rank 0 issued it early, at 0.25, and computed on: only the wait after 1.0 is exposed.
  trial.ranks[0].timeline_events[0].start_s = 0.25;
  const AttributedStep step = attribute_step(trial, {});
  expect_parts(step.ranks[0].parts, 1.25, 0.5, 0.5);
  expect_parts(step.ranks[0].collectives.at(0).parts, 0.75, 0.5, 0.5);
}

TEST(Attribution, AnInstantBelongsToTheOneIssuedFirst) {
  // Both in flight from 1.0 on; bucket 1 waits in line behind bucket 0 until 1.5.
  const std::vector<TimelinePhase> phases{{"backward", 0, 0, 1.0}, {"wait", 0, 1.0, 2.0}};
  const std::vector<TimelineEvent> events{bucket(0, 0.5, 1.5), bucket(1, 1.0, 2.0)};
  const AttributedStep step = attribute_step(
      trial_with({rank_of(0, 1, 2.0, phases, events), rank_of(1, 1, 2.0, phases, events)}), {});
  expect_parts(step.ranks.at(0).collectives.at(0).parts, 0.5, 0, 0.5);
  expect_parts(step.ranks.at(0).collectives.at(1).parts, 0, 0, 0.5);
  expect_parts(step.ranks.at(0).parts, 1.0, 0, 1.0);
}

// Bucket 0 is copied from 1.0 to 1.25 while bucket 1 is on the wire, and bucket 1 when all is over.
TEST(Attribution, CopiesBetweenWaitsAreNoWaiting) {
  const std::vector<TimelinePhase> phases{{"backward", 0, 0, 0.5}, {"wait", 0, 0.5, 1.0},
                                          {"copy", 0, 1.0, 1.25},  {"wait", 0, 1.25, 1.5},
                                          {"copy", 0, 1.5, 1.75},  {"backward", 0, 1.75, 2.0}};
  const std::vector<TimelineEvent> events{bucket(0, 0.25, 1.0), bucket(1, 0.5, 1.5)};
  const TrialRecord trial =
      trial_with({rank_of(0, 1, 2.0, phases, events), rank_of(1, 1, 2.0, phases, events)});
  const AttributedStep step = attribute_step(trial, {});
  const RankParts& rank = step.ranks.at(0);
  expect_parts(rank.parts, 0.75, 0, 0.75);
  EXPECT_DOUBLE_EQ(rank.parts.copy_s, 0.5);
  EXPECT_DOUBLE_EQ(rank.parts.total_s(), 2.0);
  EXPECT_DOUBLE_EQ(rank.collectives.at(0).parts.copy_s, 0);
  EXPECT_DOUBLE_EQ(rank.collectives.at(1).parts.copy_s, 0.25) << "what hid it";
  EXPECT_DOUBLE_EQ(attribution_of({&trial}, {})->ranks.at(0).copy_s, 0.5);
}

// A unit runs again from 0.25 to 0.75, the second half of it while a bucket is on the wire.
TEST(Attribution, WhatRunsAgainIsNoComputationOfItsOwn) {
  const std::vector<TimelinePhase> phases{
      {"backward", 0, 0, 0.25}, {"recompute", 0, 0.25, 0.75}, {"backward", 0, 0.75, 1.0}};
  const std::vector<TimelineEvent> events{bucket(0, 0.5, 1.0)};
  const TrialRecord trial = trial_with({rank_of(0, 1, 1.0, phases, events)});
  const AttributedStep step = attribute_step(trial, {});
  const RankParts& rank = step.ranks.at(0);
  expect_parts(rank.parts, 0.5, 0, 0);
  EXPECT_DOUBLE_EQ(rank.parts.recompute_s, 0.5);
  EXPECT_DOUBLE_EQ(rank.parts.total_s(), 1.0);
  EXPECT_DOUBLE_EQ(rank.collectives.at(0).parts.recompute_s, 0.25) << "what hid it";
  const auto attribution = attribution_of({&trial}, {});
  EXPECT_DOUBLE_EQ(attribution->ranks.at(0).recompute_s, 0.5);
  EXPECT_DOUBLE_EQ(attribution->ranks.at(0).collectives.at(0).recompute_s, 0.25);
}

// From 0.25 to 0.75 a shard is copied to the device, the second half while a bucket is on the wire.
TEST(Attribution, CopiesToTheHostAndBackAreNoComputation) {
  const std::vector<TimelinePhase> phases{
      {"forward", 0, 0, 0.25}, {"offload", 0, 0.25, 0.75}, {"forward", 0, 0.75, 1.0}};
  const TrialRecord trial = trial_with({rank_of(0, 1, 1.0, phases, {bucket(0, 0.5, 1.0)})});
  const AttributedStep step = attribute_step(trial, {});
  const RankParts& rank = step.ranks.at(0);
  expect_parts(rank.parts, 0.5, 0, 0);
  EXPECT_DOUBLE_EQ(rank.parts.offload_s, 0.5);
  EXPECT_DOUBLE_EQ(rank.parts.total_s(), 1.0);
  const auto attribution = attribution_of({&trial}, {});
  EXPECT_DOUBLE_EQ(attribution->ranks.at(0).offload_s, 0.5);
  EXPECT_DOUBLE_EQ(attribution->ranks.at(0).collectives.at(0).offload_s, 0.25) << "what hid it";
}

// The same of a shard that is cast before it is gathered.
TEST(Attribution, CastsAreAPartOfTheirOwn) {
  const std::vector<TimelinePhase> phases{
      {"forward", 0, 0, 0.25}, {"cast", 0, 0.25, 0.75}, {"forward", 0, 0.75, 1.0}};
  const TrialRecord trial = trial_with({rank_of(0, 1, 1.0, phases, {bucket(0, 0.5, 1.0)})});
  const auto attribution = attribution_of({&trial}, {});
  const auto& rank = attribution->ranks.at(0);
  EXPECT_DOUBLE_EQ(rank.own_compute_s, 0.5);
  EXPECT_DOUBLE_EQ(rank.cast_s, 0.5);
  EXPECT_DOUBLE_EQ(rank.total_s(), 1.0);
  EXPECT_DOUBLE_EQ(rank.collectives.at(0).cast_s, 0.25) << "what hid it";
}

TEST(Attribution, WaitingWithNothingInFlightIsTheRanksOwn) {
  const std::vector<TimelinePhase> phases{{"wait", 0, 0, 1.0}};
  const std::vector<TimelineEvent> events{bucket(0, 0.25, 0.5)};
  const AttributedStep step = attribute_step(trial_with({rank_of(0, 1, 1.5, phases, events)}), {});
  expect_parts(step.ranks.at(0).parts, 1.25, 0, 0.25);
}

TEST(Attribution, HostsClocksAreLaidOverEachOther) {
  TrialRecord trial = late_second_rank();
  *trial.ranks[1].timeline_start_s += 3000;  // the second host was started earlier
  const json context = {{"launcher", "torchrun"},
                        {"clocks",
                         {{{"node", 0}, {"offset_s", 0.0}, {"error_s", 2e-6}},
                          {{"node", 1}, {"offset_s", 3000.0}, {"error_s", 5e-6}}}}};
  const AttributedStep step = attribute_step(trial, HostClocks(context));
  ASSERT_EQ(step.ranks.size(), 2U) << step.unknown_because;
  EXPECT_NEAR(step.ranks[0].parts.late_peer_s, 0.5, 1e-9);
  EXPECT_DOUBLE_EQ(step.clock_error_s, 7e-6);
}

TEST(Attribution, ClocksThatWereNotComparedLeaveItUnknown) {
  const auto why = [](const json& context) {
    return attribute_step(late_second_rank(), HostClocks(context)).unknown_because;
  };
  const json clocks = {{{"node", 0}, {"offset_s", 0.0}, {"error_s", 2e-6}},
                       {{"node", 1}, {"offset_s", nullptr}, {"error_s", nullptr}}};
  test::expect_phrases("summary", {why({{"launcher", "srun"}, {"clocks", clocks}})});
  EXPECT_NE(why({{"launcher", "srun"}, {"clocks", nullptr}}), "") << "cut short";
  EXPECT_NE(why({{"launcher", "srun"}, {"resumed", true}, {"clocks", clocks}}), "");
  EXPECT_EQ(why({{"launcher", nullptr}, {"clocks", nullptr}}), "") << "one host, one clock";
}

TEST(Attribution, UnknownHasItsReason) {
  const auto why = [](auto change) {
    TrialRecord trial = late_second_rank();
    change(trial);
    const AttributedStep step = attribute_step(trial, {});
    EXPECT_TRUE(step.ranks.empty());
    return step.unknown_because;
  };
  test::expect_phrases(
      "summary",
      {why([](TrialRecord& trial) { trial.ranks[1].timeline_start_s.reset(); }),
       why([](TrialRecord& trial) { trial.ranks[1].timeline_events[0].op = "send"; }),
       why([](TrialRecord& trial) { trial.ranks[1].timeline_events[0].end_s = NAN; }),
       why([](TrialRecord& trial) { trial.cell = trial.cell.with("hybrid_shard", true); }),
       why([](TrialRecord& trial) { trial.ranks.clear(); })});
}

json attribution_in_file(const std::vector<TrialRecord>& trials) {
  const json result = build_result(test::sample_context(), {}, trials);
  return result["cells"][0]["attribution"];
}

TEST(Attribution, ACellHasTheMeanOfItsTrials) {
  TrialRecord second = late_second_rank();  // no late peer: rank 1 began half a second earlier
  second.launch = 1;
  *second.ranks[1].timeline_start_s -= 0.5;
  TrialRecord older = late_second_rank();
  older.launch = 2;
  older.ranks[0].timeline_start_s.reset();
  const json found = attribution_in_file({late_second_rank(), second, older});
  EXPECT_EQ(found["steps"], 2) << "the third cannot be told";
  const json& rank = found["ranks"][0];
  EXPECT_DOUBLE_EQ(rank["late_peer_s"], 0.25);
  EXPECT_DOUBLE_EQ(rank["wire_s"], 0.75);
  EXPECT_DOUBLE_EQ(rank["own_compute_s"], 1.25);
  EXPECT_EQ(rank["waited_for_s"], json({{"1", 0.25}}));
  EXPECT_EQ(rank["collectives"][0]["op"], "all_reduce");
  EXPECT_DOUBLE_EQ(rank["collectives"][0]["wire_s"], 0.75);
  EXPECT_EQ(found["ranks"][1]["waited_for_s"], json::object());
}

TEST(Attribution, WithoutOneTrialThatCanBeToldACellSaysWhy) {
  TrialRecord older = late_second_rank();
  older.ranks[0].timeline_start_s.reset();
  const json result = build_result(test::sample_context(), {}, {older});
  const json& cell = result["cells"][0];
  EXPECT_TRUE(cell["attribution"].is_null());
  test::expect_phrases("summary", {cell["null_reasons"]["attribution"].get<std::string>()});
}

double sum_of(const json& collectives, const char* name) {
  return std::accumulate(
      collectives.begin(), collectives.end(), 0.0,
      [&](double sum, const json& one) { return sum + one[name].get<double>(); });
}

TEST(Attribution, PartsSumToTheStepAndCollectivesToWhatIsExposed) {
  for (TrialRecord trial : test::sample_run().trials) {
    for (RankRecord& rank : trial.ranks) rank.timeline_start_s = 5 + 0.01 * rank.rank;
    const json found = attribution_in_file({trial});
    ASSERT_EQ(found["ranks"].size(), 2U);
    for (const json& rank : found["ranks"]) {
      const double exposed_s = rank["late_peer_s"].get<double>() + rank["wire_s"].get<double>();
      EXPECT_GT(exposed_s, 0);
      EXPECT_NEAR(rank["own_compute_s"].get<double>() + exposed_s,
                  trial.ranks[rank["rank"]].step_s.back(), 1e-9);
      EXPECT_NEAR(
          sum_of(rank["collectives"], "late_peer_s") + sum_of(rank["collectives"], "wire_s"),
          exposed_s, 1e-9);
    }
  }
}

}  // namespace
}  // namespace gradsync::summary
