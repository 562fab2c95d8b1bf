// One trial whose every event is written down; a whole run's trace is held against the format's
// rules by program_trace_test.
// Covers: trace_events.cpp.
#include "harness/report/formats.h"

#include <gmock/gmock.h>

#include "harness/report/trace_events.h"
#include "tests/harness/results/sample_run.h"

namespace gradsync::report {
namespace {

using nlohmann::json;
using results::TrialRecord;
using test::sample_cell;
using test::sample_trial;

const results::TimelinesFile kNoFile("no such directory");

// Rank 1 begins 0.1 s after rank 0 and issues its bucket at 0.25 of its own step.
TrialRecord traced_trial() {
  TrialRecord trial = sample_trial("a_part", sample_cell("2x1_1gbit", "no_sync"), 0, {3.0, 1.0});
  for (auto& rank : trial.ranks) {
    rank.timeline_start_s = 500 + 0.1 * rank.rank;
    rank.timeline_phases = {{"backward", 3, 0, 0.25}, {"wait", 3, 0.25, 0.5}};
    rank.timeline_events = {{"all_reduce", 1000, 3, 0, 0.25, 0.5}};
  }
  trial.ranks[0].timeline_events[0].start_s = 0.15;
  trial.ranks[0].timeline_events[0].end_s = 0.6;
  return trial;
}

std::vector<json> events_of(const TrialRecord& trial, const std::string& kind,
                            const json& context = json::object()) {
  std::vector<json> found;
  const json trace = trace_json(context, {trial}, kNoFile);
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == kind) found.push_back(event);
  }
  return found;
}

json slice_named(const TrialRecord& trial, const std::string& name, int process) {
  for (const json& event : events_of(trial, "X")) {
    if (event["name"] == name && event["pid"] == process) return event;
  }
  ADD_FAILURE() << "no slice " << name << " in process " << process;
  return {};
}

TEST(Trace, EachRankIsAProcessWithThreadsThatSayWhatTheyAre) {
  std::vector<std::string> names;
  for (const json& event : events_of(traced_trial(), "M")) {
    if (event["args"].contains("name")) {
      names.push_back(event["args"]["name"].get<std::string>());
    }
  }
  EXPECT_THAT(names, ::testing::ElementsAre(
                         "a_part 2x1_1gbit bert_mini no_sync rank 0", "compute", "communication",
                         "a_part 2x1_1gbit bert_mini no_sync rank 1", "compute", "communication"));
}

TEST(Trace, TimesAreMicrosecondsSinceTheStepBeganOnTheFirstRank) {
  const json step = slice_named(traced_trial(), "step", 2);
  EXPECT_DOUBLE_EQ(step["ts"], 0.1e6);
  EXPECT_DOUBLE_EQ(step["dur"], 0.999e6);  // the sample's second rank is 1 ms faster
  EXPECT_EQ(step["args"]["cell"]["strategy"], "no_sync");
  EXPECT_EQ(step["args"]["step"], 1);
  EXPECT_DOUBLE_EQ(slice_named(traced_trial(), "wait", 2)["ts"], 0.35e6);
  const json bucket = slice_named(traced_trial(), "all_reduce bucket 0", 1);
  EXPECT_DOUBLE_EQ(bucket["ts"], 0.15e6);
  EXPECT_DOUBLE_EQ(bucket["dur"], 0.45e6);
  EXPECT_EQ(bucket["args"]["bytes"], 1000);
}

TEST(Trace, ACollectiveShowsForWhomItWaited) {
  // Rank 1 issues at 0.25 of its step, which is 0.35 of rank 0's.
  const json late = slice_named(traced_trial(), "late: rank 1", 1);
  EXPECT_DOUBLE_EQ(late["ts"], 0.15e6);
  EXPECT_DOUBLE_EQ(late["dur"], 0.2e6);
  const json rest = slice_named(traced_trial(), "issued by all", 1);
  EXPECT_DOUBLE_EQ(rest["ts"], 0.35e6);
  EXPECT_DOUBLE_EQ(rest["dur"], 0.25e6);
  for (const json& event : events_of(traced_trial(), "X")) {
    EXPECT_NE(event["name"], "late: rank 0");
  }
}

TEST(Trace, AnArrowLeadsFromTheLaunchToTheEnd) {
  const auto begins = events_of(traced_trial(), "s");
  const auto ends = events_of(traced_trial(), "f");
  ASSERT_EQ(begins.size(), 2U);
  ASSERT_EQ(ends.size(), 2U);
  EXPECT_EQ(begins[0]["tid"], 1);
  EXPECT_DOUBLE_EQ(begins[0]["ts"], 0.15e6);
  EXPECT_EQ(ends[0]["tid"], 2);
  EXPECT_DOUBLE_EQ(ends[0]["ts"], 0.6e6 - 0.001) << "its last nanosecond, inside of it";
  EXPECT_EQ(ends[0]["bp"], "e");
  for (int i : {0, 1}) {
    EXPECT_EQ(begins[i]["id"], ends[i]["id"]);
    EXPECT_EQ(begins[i]["cat"], ends[i]["cat"]);
    EXPECT_EQ(begins[i]["name"], ends[i]["name"]);
  }
  EXPECT_NE(begins[0]["id"], begins[1]["id"]);
}

TEST(Trace, CollectivesInFlightAtOnceHaveRowsOfTheirOwn) {
  TrialRecord trial = traced_trial();
  trial.ranks.resize(1);
  trial.ranks[0].timeline_events = {{"all_reduce", 4, 3, 0, 0.1, 0.3},
                                    {"all_reduce", 4, 3, 1, 0.2, 0.4},
                                    {"all_reduce", 4, 3, 2, 0.3, 0.5}};
  EXPECT_EQ(slice_named(trial, "all_reduce bucket 0", 1)["tid"], 2);
  EXPECT_EQ(slice_named(trial, "all_reduce bucket 1", 1)["tid"], 3);
  EXPECT_EQ(slice_named(trial, "all_reduce bucket 2", 1)["tid"], 2) << "touches the first";
}

TEST(Trace, WithoutAStartEachRankCountsFromItsOwn) {
  TrialRecord older = traced_trial();
  older.ranks[0].timeline_start_s.reset();
  EXPECT_DOUBLE_EQ(slice_named(older, "step", 2)["ts"], 0);
  for (const json& event : events_of(older, "X")) {
    EXPECT_FALSE(event["name"].get<std::string>().starts_with("late"))
        << "the last rank is not known";
  }
}

TEST(Trace, ClocksOfTwoHostsAreLaidOverEachOther) {
  const json clocks = {{{"node", 0}, {"offset_s", 0.0}, {"error_s", 1e-6}},
                       {{"node", 1}, {"offset_s", 0.1}, {"error_s", 1e-6}}};
  for (const json& event :
       events_of(traced_trial(), "X", {{"launcher", "torchrun"}, {"clocks", clocks}})) {
    if (event["name"] != "step") continue;
    EXPECT_NEAR(event["ts"].get<double>(), 0, 1e-3);
  }
}

TEST(Trace, ACategoryThatIsGoneCountsZero) {
  TrialRecord trial = traced_trial();
  trial.ranks[0].memory_timeline = {{0.0, -1, "", "", {{"other", 7}}},
                                    {0.5, 3, "backward", "", {{"activation", 9}}}};
  const auto counters = events_of(trial, "C");
  ASSERT_EQ(counters.size(), 2U);
  EXPECT_EQ(counters[0]["args"], json({{"activation", 0}, {"other", 7}}));
  EXPECT_EQ(counters[1]["args"], json({{"activation", 9}, {"other", 0}}));
  EXPECT_DOUBLE_EQ(counters[1]["ts"], 0.5e6);
}

TEST(Trace, MemoryIsThatOfTheLastTrialThatRecordedIt) {
  std::vector<TrialRecord> trials{traced_trial(), traced_trial(), traced_trial()};
  trials[0].ranks[0].memory_timeline = {{0.0, -1, "", "", {{"other", 7}}}};
  trials[1].ranks[0].memory_timeline = {{0.0, -1, "", "", {{"other", 8}}}};
  for (std::size_t i = 0; i < trials.size(); ++i) trials[i].round = static_cast<int>(i);
  std::vector<json> counters;
  const json trace = trace_json(json::object(), trials, kNoFile);
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "C") counters.push_back(event["args"]);
  }
  EXPECT_THAT(counters, ::testing::ElementsAre(json{{"other", 8}}));
}

TEST(Trace, AFailedTrialIsNotShown) {
  TrialRecord failed = traced_trial();
  failed.status = results::Status::Failed;
  EXPECT_TRUE(trace_json({}, {failed}, kNoFile)["traceEvents"].empty());
}

TEST(NestingRows, ASpanIsInARowWhereItFollowsOrLiesInside) {
  NestingRows rows;
  EXPECT_EQ(rows.place({0, 100}), 0);
  EXPECT_EQ(rows.place({0, 50}), 0);    // inside
  EXPECT_EQ(rows.place({50, 80}), 0);   // follows, inside of the first
  EXPECT_EQ(rows.place({70, 90}), 1);   // cuts the one before
  EXPECT_EQ(rows.place({90, 120}), 1);  // cuts the first
  EXPECT_EQ(rows.place({100, 130}), 0);
  EXPECT_EQ(rows.count(), 2);
}

}  // namespace
}  // namespace gradsync::report
