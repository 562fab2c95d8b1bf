// Reads back what gradsync watch wrote, and nothing else.
// Covers: watch_csv.cpp.
#include <gmock/gmock.h>

#include <set>
#include <string>

#include "harness/base/errors.h"
#include "harness/watch/judge/watched.h"
#include "harness/watch/tell/pages.h"
#include "harness/watch/tell/watched_files.h"
#include "tests/harness/watch/sample_jobs.h"

namespace gradsync::watch {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json improper_json() {
  return watch_json(summarize(
      {gradsync::test::improper_job(0).process(), gradsync::test::improper_job(1).process()}));
}

// What is said against `value`; "" where nothing is.
std::string complaint_about(const json& value) {
  try {
    watched_from_json(value, "watch.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

// The same about the job with another value at `place`.
std::string complaint_about(const char* place, const json& value) {
  json wrong = improper_json();
  wrong[json::json_pointer(place)] = value;
  return complaint_about(wrong);
}

TEST(WatchedFromJson, EveryJobIsReadAsItWasWritten) {
  for (const auto& [name, processes] : gradsync::test::sample_jobs()) {
    const Watched watched = summarize(processes);
    const Watched again = watched_from_json(watch_json(watched), name);
    EXPECT_EQ(watch_json(again), watch_json(watched)) << name;
    EXPECT_EQ(watch_page(again), watch_page(watched)) << name;
  }
}

TEST(WatchedFromJson, WhatWasAddedToTheSchemaLaterMayBeMissing) {
  json older = improper_json();
  older["per_step"].erase("parts");
  older["per_step"].erase("no_parts_because");
  older["per_step"].erase("axes");
  older["per_step"].erase("policies");
  older.erase("series");
  older.erase("flags");
  older.erase("models");
  older.erase("wastes");
  for (json& rank : older["ranks"]) {
    for (const char* field : {"peak_allocated_bytes", "peak_is_on_gpu", "no_peak_because"}) {
      rank.erase(field);
    }
  }
  const Watched watched = watched_from_json(older, "watch.json");
  EXPECT_EQ(watched.series.exposed_s.why_not(), "the file is older than its series");
  EXPECT_EQ(watched.ranks[0].peak.bytes.why_not(), kNotCounted);
  EXPECT_FALSE(watched.typical->parts);
  EXPECT_EQ(watch_page(watched), watch_page(watched_from_json(improper_json(), "watch.json")));
}

TEST(WatchedFromJson, WhatAWasteCostsIsThereOrWhyItIsNot) {
  const json known = watch_json(summarize({gradsync::test::one_bucket_job(0).process()}));
  json unknown = known;
  unknown["wastes"][0]["saved_s"] = nullptr;
  unknown["wastes"][0]["no_saved_s_because"] = kNoEnds;
  EXPECT_EQ(watched_from_json(unknown, "watch.json").wastes[0].saved_s.why_not(), kNoEnds);
  for (const auto& [field, value] :
       std::vector<std::pair<const char*, json>>{{"saved_s", nullptr},
                                                 {"no_saved_s_because", "none"},
                                                 {"kind", "slow"},
                                                 {"reductions", 0},
                                                 {"sentence", ""}}) {
    json wrong = known;
    wrong["wastes"][0][field] = value;
    EXPECT_THAT(complaint_about(wrong), HasSubstr("wastes[0]")) << field;
  }
}

TEST(WatchedFromJson, APeakIsThereOrWhyItIsNot) {
  json known = improper_json();
  known["ranks"][1]["peak_allocated_bytes"] = 4096;
  known["ranks"][1]["no_peak_because"] = nullptr;
  EXPECT_EQ(watched_from_json(known, "watch.json").ranks[1].peak.bytes, Known<std::int64_t>(4096));
  EXPECT_THAT(
      complaint_about("/ranks/0/no_peak_because", nullptr),
      HasSubstr("field 'ranks[0].no_peak_because': got null, expected why peak_allocated_bytes is "
                "not known"));
  EXPECT_THAT(complaint_about("/ranks/0/peak_allocated_bytes", -4),
              HasSubstr("field 'ranks[0].no_peak_because'"));
}

TEST(WatchedFromJson, TextsAreNotEmpty) {
  EXPECT_THAT(complaint_about("/faults", {""}),
              HasSubstr("'faults': got [\"\"], expected a list of texts that are not empty"));
  EXPECT_THAT(complaint_about("/wrappers", {""}), HasSubstr("field 'wrappers'"));
  EXPECT_THAT(complaint_about("/verdicts/0/why", ""), HasSubstr("field 'verdicts[0].why'"));
}

TEST(WatchedFromJson, ErrorsNameFileFieldGotAndExpected) {
  EXPECT_EQ(complaint_about("/schema", "gradsync.result/1"),
            "watch.json: field 'schema': got \"gradsync.result/1\", expected gradsync.watch/1");
  EXPECT_THAT(complaint_about("/surprise", 1),
              HasSubstr("watch.json: field 'surprise': got 1, expected none of this name, but "));
  EXPECT_EQ(complaint_about("/ranks/1/steps", -1),
            "watch.json: field 'ranks[1].steps': got -1, expected an integer of at least 0");
  EXPECT_EQ(complaint_about("/ranks/0/collectives/all_reduce/count", 0),
            "watch.json: field 'ranks[0].collectives.all_reduce.count': got 0, expected an integer "
            "of at least 1");
  EXPECT_EQ(complaint_about("/per_step/step_s", "long"),
            "watch.json: field 'per_step.step_s': got \"long\", expected a number");
  EXPECT_EQ(
      complaint_about("/per_step/parts/fixed_s", -1.5),
      "watch.json: field 'per_step.parts.fixed_s': got -1.5, expected a number of at least 0");
  EXPECT_THAT(complaint_about("/verdicts/0/kind", "fine"),
              HasSubstr("field 'verdicts[0].kind': got \"fine\", expected one of once_per_step, "));
  EXPECT_EQ(complaint_about("/verdicts/0/change/what", ""),
            "watch.json: field 'verdicts[0].change.what': got \"\", expected a text that is not "
            "empty");
  EXPECT_EQ(complaint_about("/faults", {1}),
            "watch.json: field 'faults[0]': got 1, expected a string");
  EXPECT_EQ(complaint_about(json::array()),
            "watch.json: field '(top level)': got [], expected an object");
}

// What is multiplied by micro-batches is bounded, a step of the largest models is not.
TEST(WatchedFromJson, AStepMayMoveMoreThanAMicroBatch) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 45;
  EXPECT_THAT(complaint_about("/per_step/collectives/all_reduce/bytes", kHuge),
              HasSubstr("field 'per_step.ideal'"));
  EXPECT_THAT(complaint_about("/per_step/parts/synchronization/all_reduce/bytes", kHuge),
              HasSubstr("expected integers of at most 4398046511104"));
}

TEST(WatchedFromJson, FieldsThatContradictEachOtherAreRefused) {
  EXPECT_EQ(complaint_about("/has_excess", false),
            "watch.json: field 'has_excess': got false, expected whether a verdict fails");
  EXPECT_THAT(complaint_about("/per_step/excess/all_reduce/bytes", 1),
              HasSubstr("field 'per_step.ideal'"));
  EXPECT_THAT(complaint_about("/per_step/excess_s", nullptr),
              HasSubstr("field 'per_step.no_excess_s_because': got null, expected why"));
  EXPECT_THAT(complaint_about("/per_step/synchronized", 5),
              HasSubstr("field 'per_step.synchronized': got 5, expected an integer of at most 4"));
  EXPECT_THAT(complaint_about("/per_step/parts/synchronization/all_reduce/count", 3),
              HasSubstr("expected parts that add up to collectives"));
  EXPECT_THAT(complaint_about("/per_step/parts", nullptr),
              HasSubstr("expected why parts is not known"));
  EXPECT_THAT(complaint_about("/verdicts", json::array()),
              HasSubstr("'verdicts': got [], expected a list that is not empty"));
  EXPECT_THAT(complaint_about("/series/exposed_s", -1),
              HasSubstr("'series.exposed_s': got -1, expected a number of at least 0"));
  EXPECT_THAT(complaint_about("/series/synchronization_share", 2),
              HasSubstr("'series.synchronization_share': got 2, expected a number of at most 1"));
  EXPECT_THAT(complaint_about("/series/latest_rank", "none"), HasSubstr("latest_rank"));
  EXPECT_THAT(complaint_about("/verdicts/0/kind", "not_recognised"),
              HasSubstr("'verdicts[0].fails'"));
}

TEST(WatchedFromJson, AxesAddUpToTheStep) {
  const auto complaint_about_axis = [](const char* place, const json& value) {
    json wrong = watch_json(summarize({gradsync::test::hybrid_job(0).process()}));
    wrong["per_step"]["axes"][1][json::json_pointer(place)] = value;
    return complaint_about(wrong);
  };
  EXPECT_EQ(complaint_about_axis("/role", "replicate"), "");
  EXPECT_THAT(complaint_about_axis("/role", "both"),
              HasSubstr("'per_step.axes[1].role': got \"both\", expected one of shard, "));
  EXPECT_THAT(complaint_about_axis("/ranks", json::array()),
              HasSubstr("'per_step.axes[1].ranks': got [], expected a list that is not empty"));
  EXPECT_THAT(complaint_about_axis("/excess/all_reduce/count", 5),
              HasSubstr("'per_step.axes[1].ideal': got"));
  json fewer = watch_json(summarize({gradsync::test::hybrid_job(0).process()}));
  fewer["per_step"]["axes"].erase(1);
  EXPECT_THAT(complaint_about(fewer), HasSubstr("axes that add up to collectives"));
}

TEST(WatchedFromJson, AFlagHasAllItsFields) {
  json wrong = watch_json(summarize({gradsync::test::hybrid_job(0).process()}));
  wrong["flags"][0].erase("on");
  EXPECT_THAT(complaint_about(wrong), HasSubstr("field 'flags[0].on'"));
  EXPECT_THAT(complaint_about("/flags", 1), HasSubstr("field 'flags': got 1, expected a list"));
}

TEST(WatchedFromJson, EveryFieldButTheLaterOnesIsRequired) {
  for (const char* place : {"", "/ranks/0", "/per_step", "/per_step/parts", "/verdicts/0",
                            "/verdicts/0/change", "/per_step/excess/all_reduce"}) {
    const json whole = improper_json();
    for (const auto& [field, value] : whole[json::json_pointer(place)].items()) {
      const std::set<std::string> later{
          "series",   "account", "cause",          "axes",      "flags",  "kinds", "models",
          "policies", "wastes",  "peak_is_on_gpu", "backwards", "inside", "gpu"};
      if (later.contains(field)) continue;  // older files have none
      json wrong = whole;
      wrong[json::json_pointer(place)].erase(field);
      EXPECT_NE(complaint_about(wrong), "") << place << " without " << field;
    }
  }
}

TEST(WatchCsv, HasALineForEachOperation) {
  EXPECT_EQ(watch_csv(watched_from_json(improper_json(), "watch.json")),
            "operation,count,bytes,enough_count,enough_bytes,excess_count,excess_bytes\n"
            "all_reduce,8,8000,2,2000,6,6000\n");
}

TEST(WatchCsv, WhatIsNotKnownIsEmpty) {
  const Watched cleared = summarize(
      {gradsync::test::cleared_job(0).process(), gradsync::test::cleared_job(1).process()});
  EXPECT_THAT(watch_csv(cleared), HasSubstr("\nall_reduce,4,4000,,,,\n"));
  EXPECT_THAT(watch_csv(summarize(gradsync::test::job_without_times())),
              HasSubstr("\nall_reduce,8,,2,,6,\n"));
}

}  // namespace
}  // namespace gradsync::watch
