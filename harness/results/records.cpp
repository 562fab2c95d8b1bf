#include "harness/results/records.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "harness/base/optional_json.h"
#include "harness/results/block_time.h"

namespace gradsync::results {

using nlohmann::json;

namespace {

constexpr std::pair<Status, const char*> kStatusNames[] = {
    {Status::Ok, "ok"},         {Status::Oom, "oom"},         {Status::Timeout, "timeout"},
    {Status::Failed, "failed"}, {Status::Skipped, "skipped"}, {Status::Invalid, "invalid"}};

// JSON has no NaN; what is unknown is null.
json number_or_null(double value) {
  return std::isfinite(value) ? json(value) : json(nullptr);
}

double number_from(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

json numbers_to_json(const std::vector<double>& values) {
  json out = json::array();
  for (const double value : values) out.push_back(number_or_null(value));
  return out;
}

std::vector<double> numbers_from(const json& in) {
  // get_ref refuses what is no array; iterating a bare number would yield that number.
  std::vector<double> values;
  for (const json& value : in.get_ref<const json::array_t&>()) values.push_back(number_from(value));
  return values;
}

// get<int>() cuts off a fraction, wraps what is too large, and is undefined for 1e300.
template <typename Integer>
Integer integer_from(const json& value) {
  const bool fits =
      value.is_number_unsigned()
          ? std::in_range<Integer>(value.get<std::uint64_t>())
          : value.is_number_integer() && std::in_range<Integer>(value.get<std::int64_t>());
  if (!fits) {
    throw json::type_error::create(
        302,
        fmt::format("got {}, expected an integer of {} bits", value.dump(), 8 * sizeof(Integer)),
        &value);
  }
  return value.get<Integer>();
}

std::optional<std::int64_t> optional_bytes(const json& in, const char* name) {
  const auto found = in.find(name);
  if (found == in.end() || found->is_null()) return std::nullopt;
  return integer_from<std::int64_t>(*found);
}

std::optional<double> optional_number(const json& in, const char* name) {
  const auto found = in.find(name);
  if (found == in.end() || found->is_null()) return std::nullopt;
  return found->get<double>();
}

json names_or_null(const std::map<std::string, std::int64_t>& bytes) {
  return bytes.empty() ? json(nullptr) : json(bytes);
}

std::map<std::string, std::int64_t> bytes_by_name(const json& in) {
  std::map<std::string, std::int64_t> bytes;
  for (const auto& [key, value] : in.get_ref<const json::object_t&>()) {
    bytes[key] = integer_from<std::int64_t>(value);
  }
  return bytes;
}

std::map<std::string, std::int64_t> optional_bytes_by_name(const json& in, const char* name) {
  const auto found = in.find(name);
  if (found == in.end() || found->is_null()) return {};
  return bytes_by_name(*found);
}

json counts_to_json(const OpCounts& counts) {
  json out = json::object();
  for (const auto& [op, total] : counts) {
    out[op] = {{"count", total.count}, {"bytes", total.bytes}};
  }
  return out;
}

OpCounts counts_from(const json& in) {
  OpCounts counts;
  for (const auto& [op, total] : in.get_ref<const json::object_t&>()) {
    counts[op] = {integer_from<std::int64_t>(total.at("count")),
                  integer_from<std::int64_t>(total.at("bytes"))};
  }
  return counts;
}

json event_to_json(const TimelineEvent& event) {
  return {{"op", event.op},
          {"bytes", event.bytes},
          {"micro_batch", event.micro_batch},
          {"bucket", event.bucket},
          {"start_s", number_or_null(event.start_s)},
          {"end_s", number_or_null(event.end_s)}};
}

TimelineEvent event_from(const json& in) {
  return {in.at("op").get<std::string>(),          integer_from<std::int64_t>(in.at("bytes")),
          integer_from<int>(in.at("micro_batch")), integer_from<int>(in.at("bucket")),
          number_from(in.at("start_s")),           number_from(in.at("end_s"))};
}

json phase_to_json(const TimelinePhase& phase) {
  return {{"phase", phase.phase},
          {"micro_batch", phase.micro_batch},
          {"start_s", number_or_null(phase.start_s)},
          {"end_s", number_or_null(phase.end_s)}};
}

TimelinePhase phase_from(const json& in) {
  return {in.at("phase").get<std::string>(), integer_from<int>(in.at("micro_batch")),
          number_from(in.at("start_s")), number_from(in.at("end_s"))};
}

json memory_point_to_json(const MemoryTimelinePoint& point) {
  json out = {{"at_s", number_or_null(point.at_s)},
              {"micro_batch", point.micro_batch},
              {"phase", point.phase},
              {"bytes", point.bytes}};
  if (!point.unit.empty()) out["unit"] = point.unit;
  return out;
}

MemoryTimelinePoint memory_point_from(const json& in) {
  return {number_from(in.at("at_s")), integer_from<int>(in.at("micro_batch")),
          in.at("phase").get<std::string>(), in.value("unit", ""), bytes_by_name(in.at("bytes"))};
}

json statistics_to_json(const std::optional<RunningStatistics>& statistics) {
  if (!statistics) return nullptr;
  return {{"mean", numbers_to_json(statistics->mean)},
          {"variance", numbers_to_json(statistics->variance)}};
}

std::optional<RunningStatistics> statistics_from(const json& in) {
  const auto found = in.find("running_statistics");
  if (found == in.end() || found->is_null()) return std::nullopt;
  return RunningStatistics{numbers_from(found->at("mean")), numbers_from(found->at("variance"))};
}

template <typename Item>
json list_to_json(const std::vector<Item>& items, json (*convert)(const Item&)) {
  json out = json::array();
  for (const Item& item : items) out.push_back(convert(item));
  return out;
}

template <typename Item>
std::vector<Item> list_from(const json& in, const char* name, Item (*convert)(const json&)) {
  std::vector<Item> items;
  for (const json& item : in.at(name).get_ref<const json::array_t&>()) {
    items.push_back(convert(item));
  }
  return items;
}

void refuse_unknown_version(const json& in) {
  const auto schema = in.at("schema").get<std::string>();
  if (schema == kTrialSchema) return;
  throw json::other_error::create(
      501, fmt::format("schema is '{}', this version reads '{}'", schema, kTrialSchema), &in);
}

json unaccounted_or_null(const RankRecord& rank) {
  const auto time = block_time(rank);
  return time ? json(time->unaccounted_s()) : json(nullptr);
}

}  // namespace

std::string to_string(Status status) {
  for (const auto& [value, name] : kStatusNames) {
    if (value == status) return name;
  }
  throw std::invalid_argument("a status");
}

Status status_from_string(const std::string& text) {
  for (const auto& [value, name] : kStatusNames) {
    if (text == name) return value;
  }
  throw std::invalid_argument(
      fmt::format("got status '{}', expected ok, oom, timeout, failed, skipped or invalid", text));
}

void to_json(json& out, const RankRecord& rank) {
  json phases = json::object();
  for (const auto& [phase, values] : rank.phase_s) phases[phase] = numbers_to_json(values);
  out = {
      {"rank", rank.rank},
      {"node", rank.node},
      {"step_s", numbers_to_json(rank.step_s)},
      {"warmup_step_s", numbers_to_json(rank.warmup_step_s)},
      {"phase_s", std::move(phases)},
      {"exposed_comm_s", numbers_to_json(rank.exposed_comm_s)},
      {"block_s", number_or_null(rank.block_s)},
      {"unaccounted_s", unaccounted_or_null(rank)},
      {"throttled_s", optional_to_json(rank.throttled_s)},
      {"queue_wait_s", optional_to_json(rank.queue_wait_s)},
      {"peak_allocated_bytes", optional_to_json(rank.peak_allocated_bytes)},
      {"peak_by_category", names_or_null(rank.peak_by_category)},
      {"peak_reserved_bytes", optional_to_json(rank.peak_reserved_bytes)},
      {"peak_reserved_estimate_bytes", optional_to_json(rank.peak_reserved_estimate_bytes)},
      {"parameter_distance",
       rank.parameter_distance.empty() ? json(nullptr) : numbers_to_json(rank.parameter_distance)},
      {"memory_timeline", list_to_json(rank.memory_timeline, memory_point_to_json)},
      {"running_statistics", statistics_to_json(rank.running_statistics)},
      {"timeline_start_s", optional_to_json(rank.timeline_start_s)},
      {"timeline_events", list_to_json(rank.timeline_events, event_to_json)},
      {"timeline_phases", list_to_json(rank.timeline_phases, phase_to_json)}};
}

void from_json(const json& in, RankRecord& rank) {
  rank = {};
  rank.rank = integer_from<int>(in.at("rank"));
  rank.node = integer_from<int>(in.at("node"));
  rank.step_s = numbers_from(in.at("step_s"));
  rank.warmup_step_s = numbers_from(in.at("warmup_step_s"));
  for (const auto& [phase, values] : in.at("phase_s").get_ref<const json::object_t&>()) {
    rank.phase_s[phase] = numbers_from(values);
  }
  rank.exposed_comm_s = numbers_from(in.at("exposed_comm_s"));
  rank.block_s = number_from(in.at("block_s"));
  rank.throttled_s = optional_number(in, "throttled_s");
  rank.queue_wait_s = optional_number(in, "queue_wait_s");
  rank.peak_allocated_bytes = optional_bytes(in, "peak_allocated_bytes");
  rank.peak_by_category = optional_bytes_by_name(in, "peak_by_category");
  rank.peak_reserved_bytes = optional_bytes(in, "peak_reserved_bytes");
  rank.peak_reserved_estimate_bytes = optional_bytes(in, "peak_reserved_estimate_bytes");
  if (in.contains("parameter_distance") && !in["parameter_distance"].is_null()) {
    rank.parameter_distance = numbers_from(in["parameter_distance"]);
  }
  if (in.contains("memory_timeline")) {
    rank.memory_timeline = list_from(in, "memory_timeline", memory_point_from);
  }
  rank.running_statistics = statistics_from(in);
  rank.timeline_start_s = optional_number(in, "timeline_start_s");
  rank.timeline_events = list_from(in, "timeline_events", event_from);
  rank.timeline_phases = list_from(in, "timeline_phases", phase_from);
}

void to_json(json& out, const LedgerRecord& ledger) {
  out = {{"per_step", counts_to_json(ledger.per_step)},
         {"expected", counts_to_json(ledger.expected)},
         {"matches", ledger.matches},
         {"mismatch", ledger.mismatch},
         {"buckets", ledger.buckets}};
}

void from_json(const json& in, LedgerRecord& ledger) {
  ledger = {counts_from(in.at("per_step")), counts_from(in.at("expected")),
            in.at("matches").get<bool>(), in.at("mismatch").get<std::string>(),
            integer_from<int>(in.at("buckets"))};
}

void to_json(json& out, const TrialRecord& trial) {
  out = {{"schema", kTrialSchema},
         {"part", trial.part},
         {"cell", trial.cell},
         {"launch", trial.launch},
         {"round", trial.round},
         {"order", trial.order},
         {"status", to_string(trial.status)},
         {"reason", trial.reason},
         {"step_s", numbers_to_json(trial.step_s)},
         {"warmup_step_s", numbers_to_json(trial.warmup_step_s)},
         {"ranks", trial.ranks},
         {"ledger", trial.ledger},
         {"predicted_peak_allocated_bytes", optional_to_json(trial.predicted_peak_allocated_bytes)},
         {"predicted_peak_by_category", names_or_null(trial.predicted_peak_by_category)},
         {"model_info", trial.model_info}};
}

void from_json(const json& in, TrialRecord& trial) {
  refuse_unknown_version(in);
  trial = {};
  trial.part = in.at("part").get<std::string>();
  trial.cell = in.at("cell").get_ref<const json::object_t&>();
  trial.launch = integer_from<int>(in.at("launch"));
  trial.round = integer_from<int>(in.at("round"));
  trial.order = integer_from<int>(in.at("order"));
  try {
    trial.status = status_from_string(in.at("status").get<std::string>());
  } catch (const std::invalid_argument& error) {
    throw json::other_error::create(501, error.what(), &in);
  }
  trial.reason = in.at("reason").get<std::string>();
  trial.step_s = numbers_from(in.at("step_s"));
  trial.warmup_step_s = numbers_from(in.at("warmup_step_s"));
  trial.ranks = in.at("ranks").get<std::vector<RankRecord>>();
  trial.ledger = in.at("ledger").get<LedgerRecord>();
  trial.predicted_peak_allocated_bytes = optional_bytes(in, "predicted_peak_allocated_bytes");
  trial.predicted_peak_by_category = optional_bytes_by_name(in, "predicted_peak_by_category");
  trial.model_info = in.at("model_info");
}

}  // namespace gradsync::results
