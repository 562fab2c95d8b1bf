#include "harness/results/records.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "harness/base/errors.h"
#include "tests/harness/results/samples.h"

namespace gradsync::results {
namespace {

using nlohmann::json;

TEST(Records, EveryStatusSurvivesItsName) {
  for (const auto status : {Status::Ok, Status::Oom, Status::Timeout, Status::Failed,
                            Status::Skipped, Status::Invalid}) {
    EXPECT_EQ(status_from_string(to_string(status)), status);
  }
  EXPECT_EQ(to_string(Status::Oom), "oom");
  EXPECT_THROW(status_from_string("fine"), std::invalid_argument);
}

TEST(Records, TrialSurvivesTheFileByteForByte) {
  const TrialRecord trial = sample_trial(3, 1);
  const std::string text = json(trial).dump();
  const auto back = json::parse(text).get<TrialRecord>();
  EXPECT_EQ(json(back).dump(), text);
  EXPECT_EQ(back.launch, 3);
  EXPECT_EQ(back.round, 1);
  EXPECT_EQ(back.order, 31);
  EXPECT_EQ(back.cell.strategy(), "no_sync");
  EXPECT_EQ(back.ranks.at(1).step_s, trial.ranks.at(1).step_s);
  EXPECT_EQ(back.ranks.at(0).phase_s, trial.ranks.at(0).phase_s);
  EXPECT_EQ(back.ranks.at(0).exposed_comm_s, trial.ranks.at(0).exposed_comm_s);
  EXPECT_EQ(back.ranks.at(0).timeline_events.at(0).bytes, 1048576);
  EXPECT_EQ(back.ranks.at(0).timeline_phases.at(0).phase, "forward");
  EXPECT_EQ(back.ledger.per_step, trial.ledger.per_step);
  EXPECT_TRUE(back.ledger.matches);
}

TEST(Records, BytesStayExact) {
  const auto back = json::parse(json(sample_trial()).dump()).get<TrialRecord>();
  EXPECT_EQ(back.ranks.at(0).peak_allocated_bytes, 9007199254740993);
  EXPECT_EQ(back.ranks.at(0).peak_reserved_estimate_bytes, 9007199254740995);
  EXPECT_EQ(back.ranks.at(0).peak_by_category, sample_trial().ranks.at(0).peak_by_category);
  EXPECT_EQ(back.predicted_peak_allocated_bytes, 9007199254740997);
  EXPECT_EQ(back.predicted_peak_by_category, sample_trial().predicted_peak_by_category);
}

TEST(Records, RunningStatisticsSurviveAndOlderTrialsHaveNone) {
  json trial = sample_trial();
  const auto statistics = trial.get<TrialRecord>().ranks.at(1).running_statistics;
  ASSERT_TRUE(statistics.has_value());
  EXPECT_EQ(statistics->mean, (std::vector<double>{0.25, -1.5}));
  EXPECT_EQ(statistics->variance, (std::vector<double>{1.0, 0.5}));
  trial["ranks"][0]["running_statistics"] = nullptr;
  trial["ranks"][1].erase("running_statistics");
  const auto back = trial.get<TrialRecord>();
  for (const RankRecord& rank : back.ranks) EXPECT_FALSE(rank.running_statistics.has_value());
  trial["ranks"][1]["running_statistics"] = 3;
  EXPECT_THROW(trial.get<TrialRecord>(), ConfigError);
}

TEST(Records, OlderTrialsHaveNoPrediction) {
  json older = sample_trial();
  older.erase("predicted_peak_allocated_bytes");
  older.erase("predicted_peak_by_category");
  const auto back = older.get<TrialRecord>();
  EXPECT_FALSE(back.predicted_peak_allocated_bytes.has_value());
  EXPECT_TRUE(back.predicted_peak_by_category.empty());
  EXPECT_TRUE(json(back).at("predicted_peak_by_category").is_null());
}

TEST(Records, DoublesStayExact) {
  TrialRecord trial = sample_trial();
  trial.step_s = {0.1 + 0.2, 1.0 / 3.0, 1e-9};
  EXPECT_EQ(json::parse(json(trial).dump()).get<TrialRecord>().step_s, trial.step_s);
}

TEST(Records, UnknownIsNullNeverZero) {
  TrialRecord trial = sample_trial();
  trial.ranks.at(0).block_s = std::numeric_limits<double>::quiet_NaN();
  trial.step_s = {std::numeric_limits<double>::infinity()};
  const json out = trial;
  EXPECT_TRUE(out.at("ranks").at(0).at("peak_reserved_bytes").is_null());
  EXPECT_TRUE(out.at("ranks").at(0).at("block_s").is_null());
  EXPECT_TRUE(out.at("step_s").at(0).is_null());
  const auto back = out.get<TrialRecord>();
  EXPECT_FALSE(back.ranks.at(0).peak_reserved_bytes.has_value());
  EXPECT_TRUE(std::isnan(back.step_s.at(0)));
}

TEST(Records, OlderTrialsHaveNoCompositionOfTheirPeak) {
  json older = sample_trial();
  older["ranks"][0].erase("peak_by_category");
  older["ranks"][0].erase("peak_reserved_estimate_bytes");
  older["ranks"][1]["peak_by_category"] = nullptr;
  const auto back = older.get<TrialRecord>();
  EXPECT_TRUE(back.ranks.at(0).peak_by_category.empty());
  EXPECT_FALSE(back.ranks.at(0).peak_reserved_estimate_bytes.has_value());
  EXPECT_TRUE(json(back).at("ranks").at(1).at("peak_by_category").is_null());
}

TEST(Records, MemoryOverAStepStaysAsItWas) {
  const json out = json(sample_trial()).at("ranks").at(0).at("memory_timeline");
  EXPECT_FALSE(out.at(0).contains("unit")) << "outside of a unit there is none";
  const auto points =
      json::parse(json(sample_trial()).dump()).get<TrialRecord>().ranks.at(0).memory_timeline;
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[0].micro_batch, -1);
  EXPECT_EQ(points[0].unit, "");
  EXPECT_EQ(points[1].at_s, 0.125);
  EXPECT_EQ(points[1].micro_batch, 0);
  EXPECT_EQ(points[1].phase, "forward");
  EXPECT_EQ(points[1].unit, "layer3");
  EXPECT_EQ(points[1].bytes.at("activation"), 9007199254740993);
}

TEST(Records, OlderTrialsHaveNoMemoryOverAStep) {
  json older = sample_trial();
  older["ranks"][0].erase("memory_timeline");
  EXPECT_TRUE(older.get<TrialRecord>().ranks.at(0).memory_timeline.empty());
}

TEST(Records, AnAccountThereIsNoneOfIsNullAndSaysWhy) {
  json out = sample_trial();
  EXPECT_EQ(out["account"]["contributions"], 8);
  EXPECT_FALSE(out.contains("account_why_not"));
  EXPECT_EQ(out.get<TrialRecord>().account->weight_max, 1.000002);
  out["account"] = nullptr;
  out["account_why_not"] = "folded";
  const auto back = out.get<TrialRecord>();
  EXPECT_FALSE(back.account);
  EXPECT_EQ(json(back)["account_why_not"], "folded");
  out.erase("account");  // as older versions wrote
  out.erase("account_why_not");
  EXPECT_TRUE(json(out.get<TrialRecord>()).at("account").is_null());
}

TEST(Records, ADistanceThatWasNotMeasuredIsNull) {
  json out = sample_trial();
  EXPECT_EQ(out["ranks"][1]["parameter_distance"], json({0.125, 0.25}));
  out["ranks"][0]["parameter_distance"] = nullptr;
  out["ranks"][1].erase("parameter_distance");  // as older versions wrote
  const auto back = out.get<TrialRecord>();
  EXPECT_TRUE(back.ranks.at(0).parameter_distance.empty());
  EXPECT_TRUE(json(back).at("ranks").at(1).at("parameter_distance").is_null());
}

TEST(Records, OlderTrialsDoNotSayWhenTheirExampleBegan) {
  json older = sample_trial();
  EXPECT_EQ(older.get<TrialRecord>().ranks.at(1).timeline_start_s, 1234.75);
  older["ranks"][0].erase("timeline_start_s");
  older["ranks"][1]["timeline_start_s"] = nullptr;
  const auto back = older.get<TrialRecord>();
  EXPECT_FALSE(back.ranks.at(0).timeline_start_s.has_value());
  EXPECT_FALSE(json(back).at("ranks").at(1).contains("timeline_start_s"));
}

TEST(Records, WhatRanksSayOfTheirModelIsWrittenAsTheySaidIt) {
  const json said = {
      {"parameters", 1024},
      {"gradient_bytes", 4096},
      {"tensors", 2},
      {"bucket_bytes", {1024, 3072}},
      {"scale", 1},
      {"paced", false},
      {"timing_valid", false},
      {"timing_reason", "2 ranks share 1 GPU"},
      {"gpu",
       {{"name", "H100"},
        {"uuid", "GPU-1"},
        {"pci_bus_id", "0000:1b:00.0"},
        {"compute_capability", "9.0"},
        {"memory_bytes", 85'000'000'000},
        {"cuda_driver", "13.0"},
        {"cuda_runtime", "12.8"},
        {"nccl", "2.28.9"}}},
      {"nccl_transports", nullptr},
      {"fold_from_bytes", 1048576},
      {"physical_bytes", nullptr},
      {"extra_work", {{"share", 0.03}, {"operations_per_step", 4}, {"operations", 8}}}};
  json trial = sample_trial();
  for (const json& info : {said, json{{"paced", true}}, json()}) {
    trial["model_info"] = info;
    EXPECT_EQ(json(trial.get<TrialRecord>()).at("model_info").dump(), info.dump());
  }
}

TEST(Records, RefuseWhatIsNoTrial) {
  const json good = sample_trial();
  const auto refused = [&](const char* field, const json& value) {
    json bad = good;
    bad[field] = value;
    EXPECT_THROW(bad.get<TrialRecord>(), ConfigError) << field;
  };
  refused("schema", "gradsync.trial/2");
  refused("schema", "benchmark");
  refused("status", "fine");
  refused("step_s", 0.25);
  refused("step_s", json::array({"fast"}));
  refused("cell", "baseline");
  refused("ledger", json::array());
  EXPECT_THROW(json::object().get<TrialRecord>(), ConfigError);
}

}  // namespace
}  // namespace gradsync::results
