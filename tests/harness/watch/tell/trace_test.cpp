// Slices of jobs written by hand; those of a real one are held against the format's rules by
// program_watch_trace_test.
#include "harness/watch/tell/trace.h"

#include <gmock/gmock.h>

#include "tests/harness/watch/sample_jobs.h"

namespace gradsync::watch {
namespace {

using gradsync::test::kBucketBytes;
using gradsync::test::kMillisecond;
using gradsync::test::kWaitMs;
using gradsync::test::MadeJob;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<json> events_of(const std::vector<RankEvents>& processes, const std::string& kind,
                            const std::string& name = "") {
  std::vector<json> found;
  const json trace = watch_trace(processes);
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == kind && (name.empty() || event["name"] == name)) found.push_back(event);
  }
  return found;
}

std::vector<std::string> names_of(const std::vector<RankEvents>& processes, const char* kind) {
  std::vector<std::string> names;
  for (const json& event : events_of(processes, "M", kind)) names.push_back(event["args"]["name"]);
  return names;
}

std::vector<RankEvents> improper_ranks() {
  return {gradsync::test::improper_job(1).process(), gradsync::test::improper_job(0).process()};
}

TEST(WatchTrace, RanksAreProcessesWithThreadsThatSayWhatTheyAre) {
  EXPECT_THAT(names_of(improper_ranks(), "process_name"), ElementsAre("rank 0", "rank 1"));
  EXPECT_THAT(names_of(improper_ranks(), "thread_name"),
              ElementsAre("compute", "communication", "communication 2", "compute", "communication",
                          "communication 2"));
}

TEST(WatchTrace, StepsHoldForwardsBackwardsAndOptimizers) {
  const auto ranks = improper_ranks();
  EXPECT_THAT(events_of(ranks, "X", "step 5"), SizeIs(2));
  for (const char* name : {"forward", "backward"}) {
    EXPECT_THAT(events_of(ranks, "X", name), SizeIs(2 * 6 * 4)) << name;
  }
  EXPECT_THAT(events_of(ranks, "X", "optimizer"), SizeIs(2 * 6));
  const json step = events_of(ranks, "X", "step 0").front();
  EXPECT_EQ(step["ts"], 0);
  EXPECT_EQ(step["args"]["micro_batches"], 4);
  const json forward = events_of(ranks, "X", "forward")[1];
  EXPECT_EQ(forward["args"]["micro_batch"], 1);
  EXPECT_EQ(forward["args"]["step"], 0);
  EXPECT_EQ(forward["args"]["of"], "DistributedDataParallel");
  EXPECT_EQ(forward["args"]["place"], "train.py line 21");
  EXPECT_DOUBLE_EQ(forward["dur"], 10e3);
}

TEST(WatchTrace, CollectivesHaveBytesGroupAndStep) {
  auto ranks = improper_ranks();
  for (Event& event : ranks[1].events) {
    if (event.kind == EventKind::Collective) event.detail = "default_pg";
  }
  const auto collectives = events_of(ranks, "X", "all_reduce");
  ASSERT_THAT(collectives, SizeIs(2 * 6 * 8));
  const json last_of_first_step = collectives[7];
  EXPECT_EQ(
      last_of_first_step["args"],
      json({{"bytes", kBucketBytes}, {"group", "default_pg"}, {"step", 0}, {"micro_batch", 3}}));
  EXPECT_DOUBLE_EQ(last_of_first_step["dur"], kWaitMs * 1e3);
  EXPECT_THAT(events_of(ranks, "s"), SizeIs(collectives.size()));
  EXPECT_THAT(events_of(ranks, "f"), SizeIs(collectives.size()));
  EXPECT_THAT(events_of(ranks, "X", "broadcast"), IsEmpty()) << "of the set-up";
}

TEST(WatchTrace, WhatIsNotKnownIsNullAndAsShortAsCanBeSeen) {
  for (const json& event : events_of(gradsync::test::job_without_times(), "X", "all_reduce")) {
    EXPECT_TRUE(event["args"]["bytes"].is_null());
    EXPECT_DOUBLE_EQ(event["dur"], 1e-3);
  }
}

TEST(WatchTrace, TheLastStepsAreDrawn) {
  const MadeJob job = MadeJob().wrap().times(
      kMostTracedSteps + 2, [](MadeJob& j) { j.forward().reducing().optimizer(); });
  MadeJob cut_off = job;
  cut_off.forward();
  for (const MadeJob& each : {job, cut_off}) {
    EXPECT_THAT(events_of({each.process()}, "X", "step 1"), IsEmpty());
    const auto first = events_of({each.process()}, "X", "step 2");
    ASSERT_THAT(first, SizeIs(1));
    EXPECT_EQ(first[0]["ts"], 0);
    EXPECT_THAT(events_of({each.process()}, "X", "step 11"), SizeIs(1));
    EXPECT_THAT(events_of({each.process()}, "X", "optimizer"), SizeIs(kMostTracedSteps));
  }
}

TEST(WatchTrace, ForwardsThatOverlapHaveRowsOfTheirOwn) {
  RankEvents process = MadeJob().wrap().forward().forward().reducing().optimizer().process();
  for (Event& event : process.events) {
    if (event.kind == EventKind::Forward) event.end_ns += 3 * kMillisecond;  // into the next one
  }
  const auto forwards = events_of({process}, "X", "forward");
  ASSERT_THAT(forwards, SizeIs(2));
  EXPECT_NE(forwards[0]["tid"], forwards[1]["tid"]);
  EXPECT_THAT(names_of({process}, "thread_name"),
              ElementsAre("compute", "compute 2", "communication", "communication 2"));
}

TEST(WatchTrace, WithoutAStepItIsEmpty) {
  EXPECT_TRUE(watch_trace({})["traceEvents"].empty());
  EXPECT_TRUE(watch_trace({MadeJob().wrap().forward().process()})["traceEvents"].empty());
}

}  // namespace
}  // namespace gradsync::watch
