// Made-up records and directories for the tests of harness/results.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "harness/results/records.h"

namespace gradsync::results {

// A directory of one test, gone with it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = std::filesystem::temp_directory_path() / "gradsync_test_XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void spill(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Two ranks, two timed steps, every field filled in.
inline TrialRecord sample_trial(int launch = 0, int round = 0) {
  TrialRecord trial;
  trial.part = "your_machine";
  trial.cell =
      nlohmann::json{{"topology", "2x1_1gbit"}, {"model", "bert_mini"},    {"wrapper", "ddp"},
                     {"strategy", "no_sync"},   {"accumulation_steps", 4}, {"scale", 1}};
  trial.launch = launch;
  trial.round = round;
  trial.order = launch * 10 + round;
  trial.step_s = {0.25, 0.26};
  trial.warmup_step_s = {0.5};
  for (int rank = 0; rank < 2; ++rank) {
    RankRecord record;
    record.rank = rank;
    record.node = rank;
    record.step_s = {0.25, 0.26 - rank * 0.01};
    record.warmup_step_s = {0.5};
    record.phase_s = {
        {"forward", {0.1, 0.1}}, {"backward", {0.1, 0.1}}, {"wait", {0.05, 0.06 - rank * 0.01}}};
    record.exposed_comm_s = {0.01, 0.02};
    record.block_s = 0.51;
    record.peak_allocated_bytes = 9007199254740993;  // not representable as a double
    record.peak_by_category = {{"activation", 9007199254740992}, {"other", 1}};
    record.peak_reserved_estimate_bytes = 9007199254740995;
    record.memory_timeline = {{0.0, -1, "", "", {{"other", 1}}},
                              {0.125, 0, "forward", "layer3", {{"activation", 9007199254740993}}}};
    record.running_statistics = {{0.25 * rank, -1.5}, {1.0, 0.5}};
    record.parameter_distance = {rank * 0.125, rank * 0.25};
    record.timeline_start_s = 1234.5 + 0.25 * rank;
    record.timeline_events = {{"all_reduce", 1048576, 3, 0, 0.2, 0.21}};
    record.timeline_phases = {{"forward", 0, 0.0, 0.025}};
    trial.ranks.push_back(record);
  }
  trial.ledger.per_step = {{"all_reduce", {2, 4096}}, {"broadcast", {1, 512}}};
  trial.ledger.expected = trial.ledger.per_step;
  trial.ledger.matches = true;
  trial.ledger.buckets = 2;
  trial.account = TrialAccount{
      "equal", "all 8 weigh the same within 0.0002 %", 0.999998, 1.000002, 1e-7, 1, 1.5, 2e-7, 8,
      6};
  trial.predicted_peak_allocated_bytes = 9007199254740997;
  trial.predicted_peak_by_category = {{"activation", 9007199254740997}};
  trial.model_info.emplace();
  trial.model_info->parameters = 1024;
  trial.model_info->gradient_bytes = 4096;
  trial.model_info->paced = false;
  return trial;
}

}  // namespace gradsync::results
