#include "harness/results/records.h"

#include <fmt/format.h>

#include <limits>
#include <stdexcept>
#include <utility>

#include "harness/results/block_time.h"
#include "harness/results/model_info_fields.h"
#include "harness/results/result_fields.h"
#include "harness/results/timeline_fields.h"

namespace gradsync::results {

using nlohmann::json;

namespace {

double unaccounted_s(const RankRecord& rank) {
  const auto time = block_time(rank);
  return time ? time->unaccounted_s() : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

constexpr auto fields_of(const RunningStatistics*) {
  return std::tuple{field("mean", &RunningStatistics::mean),
                    field("variance", &RunningStatistics::variance)};
}

constexpr auto fields_of(const RankRecord*) {
  return std::tuple{
      field("rank", &RankRecord::rank),
      field("node", &RankRecord::node),
      field("step_s", &RankRecord::step_s),
      field("warmup_step_s", &RankRecord::warmup_step_s),
      field("phase_s", &RankRecord::phase_s),
      field("exposed_comm_s", &RankRecord::exposed_comm_s),
      field("block_s", &RankRecord::block_s),
      computed("unaccounted_s", &unaccounted_s),
      field("throttled_s", &RankRecord::throttled_s).later(),
      field("queue_wait_s", &RankRecord::queue_wait_s).later(),
      field("peak_allocated_bytes", &RankRecord::peak_allocated_bytes).later(),
      field("peak_by_category", &RankRecord::peak_by_category).later().or_null(),
      field("host_peak_allocated_bytes", &RankRecord::host_peak_allocated_bytes).spared(),
      field("host_peak_by_category", &RankRecord::host_peak_by_category).spared(),
      field("peak_reserved_bytes", &RankRecord::peak_reserved_bytes).later(),
      field("peak_reserved_estimate_bytes", &RankRecord::peak_reserved_estimate_bytes).later(),
      field("parameter_distance", &RankRecord::parameter_distance).later().or_null(),
      field("memory_timeline", &RankRecord::memory_timeline).spared(),
      field("running_statistics", &RankRecord::running_statistics).later(),
      field("timeline_start_s", &RankRecord::timeline_start_s).spared(),
      field("timeline_events", &RankRecord::timeline_events).spared(),
      field("timeline_phases", &RankRecord::timeline_phases).spared()};
}

constexpr auto fields_of(const LedgerRecord*) {
  return std::tuple{field("per_step", &LedgerRecord::per_step),
                    field("expected", &LedgerRecord::expected),
                    field("matches", &LedgerRecord::matches),
                    field("mismatch", &LedgerRecord::mismatch),
                    field("declared_micro_batches", &LedgerRecord::declared_micro_batches).spared(),
                    field("buckets", &LedgerRecord::buckets)};
}

constexpr auto fields_of(const FilePart*) {
  return std::tuple{field("offset", &FilePart::offset), field("bytes", &FilePart::bytes)};
}

constexpr auto fields_of(const TrialRecord*) {
  return std::tuple{
      constant("schema", kTrialSchema),
      field("part", &TrialRecord::part),
      field("cell", &TrialRecord::cell),
      field("launch", &TrialRecord::launch),
      field("round", &TrialRecord::round),
      field("order", &TrialRecord::order),
      field("status", &TrialRecord::status),
      field("reason", &TrialRecord::reason),
      field("step_s", &TrialRecord::step_s),
      field("warmup_step_s", &TrialRecord::warmup_step_s),
      field("ranks", &TrialRecord::ranks),
      field("ledger", &TrialRecord::ledger),
      field("account", &TrialRecord::account).later(),
      field("account_why_not", &TrialRecord::account_why_not).spared(),
      field("predicted_peak_allocated_bytes", &TrialRecord::predicted_peak_allocated_bytes).later(),
      field("predicted_peak_by_category", &TrialRecord::predicted_peak_by_category)
          .later()
          .or_null(),
      field("predicted_host_peak_allocated_bytes",
            &TrialRecord::predicted_host_peak_allocated_bytes)
          .spared(),
      field("model_info", &TrialRecord::model_info),
      field("timelines_at", &TrialRecord::timelines_at).spared(),
      field("memory_timeline_at", &TrialRecord::memory_timeline_at).spared()};
}

std::string to_string(Status status) {
  return name_of(status);
}

Status status_from_string(const std::string& text) {
  if (const auto status = value_named<Status>(text)) return *status;
  throw std::invalid_argument(
      fmt::format("got status '{}', expected ok, oom, timeout, failed, skipped or invalid", text));
}

void to_json(json& out, const RankRecord& rank) {
  out = write_fields(rank);
}

void from_json(const json& in, RankRecord& rank) {
  rank = read_fields<RankRecord>(in, "a rank's record");
}

void to_json(json& out, const LedgerRecord& ledger) {
  out = write_fields(ledger);
}

void from_json(const json& in, LedgerRecord& ledger) {
  ledger = read_fields<LedgerRecord>(in, "a ledger");
}

void to_json(json& out, const TrialRecord& trial) {
  out = write_fields(trial);
}

void from_json(const json& in, TrialRecord& trial) {
  trial = trial_from(in, "a trial");
}

TrialRecord trial_from(const json& in, const std::string& where) {
  return read_fields<TrialRecord>(in, where);
}

json trial_schema() {
  return fields_schema<TrialRecord>();
}

}  // namespace gradsync::results
