#include "harness/results/records.h"

#include <fmt/format.h>

#include <limits>
#include <stdexcept>

#include "harness/plan/cell.h"
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

GRADSYNC_FIELDS_OF(RunningStatistics, mean, variance)

constexpr auto fields_of(const RankRecord*) {
  return std::tuple{
      GRADSYNC_FIELDS(RankRecord, rank, node, step_s, warmup_step_s, phase_s, exposed_comm_s,
                      block_s),
      GRADSYNC_LATER_FIELDS(RankRecord, throttled_s, queue_wait_s, peak_allocated_bytes,
                            peak_reserved_bytes, peak_reserved_estimate_bytes, running_statistics),
      GRADSYNC_SPARED_FIELDS(RankRecord, host_peak_allocated_bytes, host_peak_by_category,
                             memory_timeline, timeline_start_s, timeline_events, timeline_phases),
      computed("unaccounted_s", &unaccounted_s),
      field("peak_by_category", &RankRecord::peak_by_category).later().or_null(),
      field("parameter_distance", &RankRecord::parameter_distance).later().or_null()};
}

constexpr auto fields_of(const LedgerRecord*) {
  return std::tuple{
      GRADSYNC_FIELDS(LedgerRecord, per_step, expected, matches, mismatch, buckets),
      field("declared_micro_batches", &LedgerRecord::declared_micro_batches).spared()};
}

GRADSYNC_FIELDS_OF(FilePart, offset, bytes)

constexpr auto fields_of(const TrialRecord*) {
  return std::tuple{
      constant("schema", kTrialSchema),
      GRADSYNC_FIELDS(TrialRecord, part, cell, launch, round, order, status, reason, step_s,
                      warmup_step_s, ranks, ledger, model_info),
      GRADSYNC_LATER_FIELDS(TrialRecord, account, predicted_peak_allocated_bytes),
      GRADSYNC_SPARED_FIELDS(TrialRecord, oom_place, account_why_not,
                             predicted_host_peak_allocated_bytes, timelines_at, memory_timeline_at),
      field("predicted_peak_by_category", &TrialRecord::predicted_peak_by_category)
          .later()
          .or_null()};
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
  TrialRecord trial = read_fields<TrialRecord>(in, where);
  trial.cell = plan::whole_cell(trial.cell.written());
  return trial;
}

json trial_schema() {
  return fields_schema<TrialRecord>();
}

}  // namespace gradsync::results
