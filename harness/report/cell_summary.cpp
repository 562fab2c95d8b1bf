#include "harness/report/cell_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "harness/report/attribution.h"
#include "harness/report/launch_times.h"
#include "harness/report/rank_summary.h"
#include "harness/report/running_statistics.h"
#include "harness/stats/sample.h"

namespace gradsync::report {

using nlohmann::json;
using results::RankRecord;
using results::TrialRecord;

namespace {

using Trials = std::vector<const TrialRecord*>;

std::vector<double> finite(const std::vector<double>& values) {
  std::vector<double> kept;
  std::copy_if(values.begin(), values.end(), std::back_inserter(kept),
               [](double value) { return std::isfinite(value); });
  return kept;
}

std::vector<double> all_steps(const Trials& trials) {
  std::vector<double> steps;
  for (const TrialRecord* trial : trials) {
    const auto kept = finite(trial->step_s);
    steps.insert(steps.end(), kept.begin(), kept.end());
  }
  return steps;
}

// `mean` is elapsed time; the others are of the slowest rank's steps, one by one, which add up to
// more.
json times_to_json(const stats::Estimate& mean, const std::vector<double>& steps, double divisor) {
  const auto summary = *stats::summarize(steps);
  json interval = interval_to_json(mean.interval);
  for (json& end : interval) end = end.get<double>() / divisor;
  return {{"mean", mean.value / divisor},
          {"median", summary.median / divisor},
          {"sd", summary.sd ? json(*summary.sd / divisor) : json(nullptr)},
          {"p5", stats::quantile(steps, 0.05) / divisor},
          {"p95", stats::quantile(steps, 0.95) / divisor},
          {"max", summary.max / divisor},
          {"ci95", interval},
          {"n", summary.n}};
}

// What is made of a step's times, and so unknown where they are.
constexpr std::array kTimes = {"step_s", "micro_batch_s", "sample_s"};

// The examples that all ranks train on in a micro-batch; nothing in a cell that does not say.
std::optional<double> examples_of_a_micro_batch(const json& out) {
  const json& cell = out["cell"];
  if (!cell.contains("micro_batch_size") || !out["nodes"].is_number()) return std::nullopt;
  return cell["micro_batch_size"].get<double>() * out["nodes"].get<double>() *
         out["ranks_per_node"].get<double>();
}

void add_times(json& out, const CellGroup& group) {
  const std::vector<double> launches = launch_means(group);
  const std::vector<double> steps = all_steps(group.ok_trials());
  if (launches.empty() || steps.empty()) {
    for (const char* name : kTimes) set_unknown(out, name, "no timed step");
    return;
  }
  const stats::Estimate mean = stats::mean_of_launches(launches);
  out["interval"] = interval_kind(mean, launches.size());
  out["step_s"] = times_to_json(mean, steps, 1.0);
  if (group.as_published) {
    for (const char* name : {"micro_batch_s", "sample_s"}) {
      set_unknown(out, name, "as_published windows hold unequal numbers of micro-batches");
    }
    return;
  }
  const int micro_batches = group.cell.value("accumulation_steps", 1);
  out["micro_batch_s"] = times_to_json(mean, steps, micro_batches);
  if (const auto examples = examples_of_a_micro_batch(out)) {
    out["sample_s"] = times_to_json(mean, steps, micro_batches * *examples);
  } else {
    set_unknown(out, "sample_s", "the cell has no micro_batch_size");
  }
}

bool all_known(const std::vector<double>& values, std::size_t count) {
  return values.size() == count && finite(values).size() == count;
}

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// Means of each phase, of exposed communication and of what no step has, on the clock of the rank
// that each block's time is taken from: so they are parts of the very mean that is reported. What
// some block has not recorded is not known.
void add_parts_of_a_step(json& out, const CellGroup& group) {
  const std::vector<TimedBlock> blocks = timed_blocks(group);
  const std::vector<double> weights = step_weights(blocks);
  std::map<std::string, double> phases;
  std::set<std::string> incomplete;
  double exposed_s = 0;
  double unaccounted_s = 0;
  bool has_exposed = true;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const RankRecord& rank = *blocks[i].time.rank;
    for (const auto& [phase, values] : rank.phase_s) {
      if (!all_known(values, blocks[i].time.steps)) incomplete.insert(phase);
      phases[phase] += weights[i] * sum(values);
    }
    has_exposed = has_exposed && all_known(rank.exposed_comm_s, blocks[i].time.steps);
    exposed_s += weights[i] * sum(rank.exposed_comm_s);
    unaccounted_s += weights[i] * blocks[i].time.unaccounted_s();
  }
  for (const std::string& phase : incomplete) phases.erase(phase);
  out["exposed_comm_s"] = exposed_s;
  out["phase_s"] = phases;
  out["unaccounted_s"] = unaccounted_s;
  if (blocks.empty() || !has_exposed) set_unknown(out, "exposed_comm_s", "not recorded");
  if (phases.empty()) set_unknown(out, "phase_s", "not recorded");
  if (blocks.empty()) set_unknown(out, "unaccounted_s", "no timed step");
}

void add_idle_share(json& out, const Trials& trials) {
  const std::vector<double> by_rank = idle_share_by_rank(trials);
  if (by_rank.empty()) {
    set_unknown(out, "idle_share", "not recorded");
  } else {
    out["idle_share"] = {{"mean", stats::mean(by_rank)}, {"by_rank", by_rank}};
  }
}

void add_parameter_distance(json& out, const Trials& trials) {
  const std::vector<double> after_step = largest_parameter_distance(trials);
  if (after_step.empty()) {
    set_unknown(out, "parameter_distance", "not measured");
  } else {
    out["parameter_distance"] = {{"last", after_step.back()}, {"after_step", after_step}};
  }
}

void add_attribution(json& out, const json& context, const Trials& trials) {
  std::string why_unknown;
  json attribution = attribution_json(trials, HostClocks(context), why_unknown);
  if (attribution.is_null()) {
    set_unknown(out, "attribution", why_unknown);
  } else {
    out["attribution"] = std::move(attribution);
  }
}

void add_collectives(json& out, const Trials& trials) {
  const results::OpCounts& first = trials.front()->ledger.per_step;
  const bool agree = std::all_of(trials.begin(), trials.end(), [&](const TrialRecord* trial) {
    return trial->ledger.per_step == first;
  });
  if (!agree) {
    set_unknown(out, "collectives_per_step", "differs between trials; see trials.jsonl");
    return;
  }
  json counts = json::object();
  for (const auto& [op, total] : first)
    counts[op] = {{"count", total.count}, {"bytes", total.bytes}};
  out["collectives_per_step"] = counts;
}

// Of the rank whose peak is the cell's.
void add_peak_composition(json& out, const Trials& trials, const std::string& if_unknown) {
  const RankRecord* highest = nullptr;
  for (const TrialRecord* trial : trials) {
    for (const RankRecord& rank : trial->ranks) {
      if (rank.peak_by_category.empty() || !rank.peak_allocated_bytes) continue;
      if (highest == nullptr || *rank.peak_allocated_bytes > *highest->peak_allocated_bytes) {
        highest = &rank;
      }
    }
  }
  if (highest != nullptr) {
    out["peak_by_category"] = highest->peak_by_category;
  } else {
    set_unknown(out, "peak_by_category", if_unknown);
  }
}

void add_peak(json& out, const char* name, const Trials& trials,
              std::optional<std::int64_t> RankRecord::*field, const std::string& if_unknown) {
  std::optional<std::int64_t> peak;
  for (const TrialRecord* trial : trials) {
    for (const RankRecord& rank : trial->ranks) {
      if (rank.*field && (!peak || *(rank.*field) > *peak)) peak = rank.*field;
    }
  }
  if (peak) {
    out[name] = *peak;
  } else {
    set_unknown(out, name, if_unknown);
  }
}

// Of the trial in which the ranks were farthest apart at its end.
void add_running_statistics(json& out, const Trials& trials) {
  std::optional<StatisticsSpread> widest;
  for (const TrialRecord* trial : trials) {
    const auto spread = statistics_spread(*trial);
    if (!spread) continue;
    if (!widest) widest = spread;
    widest->mean_gap = std::max(widest->mean_gap, spread->mean_gap);
    widest->variance_ratio = std::max(widest->variance_ratio, spread->variance_ratio);
  }
  if (!widest) return;  // a model without batch normalization, or one rank
  out["running_statistics"] = {{"mean_gap", widest->mean_gap},
                               {"variance_ratio", widest->variance_ratio}};
}

// Every trial of a cell has the same one, those that did not end well included.
void add_prediction(json& out, const CellGroup& group) {
  for (const TrialRecord* trial : group.trials) {
    if (!trial->predicted_peak_allocated_bytes) continue;
    out["predicted_peak_allocated_bytes"] = *trial->predicted_peak_allocated_bytes;
    out["predicted_peak_by_category"] = trial->predicted_peak_by_category;
    return;
  }
  for (const char* name : {"predicted_peak_allocated_bytes", "predicted_peak_by_category"}) {
    set_unknown(out, name, "the model and its options do not declare what they hold");
  }
}

json place_of(const CellGroup& group) {
  for (const TrialRecord* trial : group.trials) {
    std::set<int> nodes;
    for (const RankRecord& rank : trial->ranks) nodes.insert(rank.node);
    if (!nodes.empty()) {
      return {{"nodes", nodes.size()}, {"ranks_per_node", trial->ranks.size() / nodes.size()}};
    }
  }
  return {{"nodes", nullptr}, {"ranks_per_node", nullptr}};
}

json description(const CellGroup& group) {
  const Outcome outcome = outcome_of(group);
  json out = {{"part", group.part},
              {"cell", group.cell},
              {"status", results::to_string(outcome.status)},
              {"reason", outcome.reason},
              {"scale", group.cell.value("scale", 1)},
              {"null_reasons", json::object()}};
  out.update(place_of(group));
  // Where no trial got as far as to say: the models that are paced by their name.
  const std::string model = group.cell.value("model", "");
  bool paced = model.starts_with("paced") || model.ends_with(".json");
  json trials = json::object();
  std::set<int> launches;
  for (const TrialRecord* trial : group.trials) {
    json& count = trials[results::to_string(trial->status)];
    count = count.is_null() ? 1 : count.get<int>() + 1;
    if (trial->model_info.is_object()) {
      paced = trial->model_info.value("paced", paced);
      const auto read_back = trial->model_info.find("host_reads_back");
      if (read_back != trial->model_info.end()) out["host_reads_back"] = *read_back;
    }
    if (trial->status == results::Status::Ok) launches.insert(trial->launch);
  }
  out["timing"] = paced ? "paced" : "real";
  out["trials"] = trials;
  out["launches"] = launches.size();
  out["blocks"] = group.ok_trials().size();
  return out;
}

}  // namespace

json interval_to_json(const std::optional<stats::Interval>& interval) {
  return interval ? json::array({interval->lo, interval->hi}) : json(nullptr);
}

void set_unknown(json& cell, const std::string& name, const std::string& reason) {
  cell[name] = nullptr;
  cell["null_reasons"][name] = reason;
}

std::string interval_kind(const stats::Estimate& estimate, std::size_t launches) {
  if (!estimate.interval) return "none: " + estimate.no_interval_because;
  return fmt::format("Student's t over {} launches", launches);
}

std::string timing_objection(const json& context, const CellGroup& group) {
  if (!context.value("timing_valid", true)) {
    return context.value("timing_reason", "this build is not fit for timing");
  }
  for (const TrialRecord* trial : group.trials) {
    if (trial->model_info.is_object() && !trial->model_info.value("timing_valid", true)) {
      return trial->model_info.value("timing_reason", "more ranks than cores compute at once");
    }
  }
  return "";
}

json summarize_cell(const json& context, const CellGroup& group) {
  json out = description(group);
  const Trials trials = group.ok_trials();
  add_prediction(out, group);
  std::string no_times = timing_objection(context, group);
  if (trials.empty()) {
    no_times = "no trial ended well";
    for (const char* name :
         {"collectives_per_step", "peak_allocated_bytes", "peak_by_category", "peak_reserved_bytes",
          "peak_reserved_estimate_bytes", "parameter_distance"}) {
      set_unknown(out, name, no_times);
    }
  } else {
    add_collectives(out, trials);
    add_running_statistics(out, trials);
    add_parameter_distance(out, trials);
    const std::string no_peak = context.value("peak_memory_reason", "not measured");
    add_peak(out, "peak_allocated_bytes", trials, &RankRecord::peak_allocated_bytes, no_peak);
    add_peak_composition(out, trials, no_peak);
    add_peak(out, "peak_reserved_bytes", trials, &RankRecord::peak_reserved_bytes, no_peak);
    const bool on_cpu =
        !out["peak_allocated_bytes"].is_null() && out["peak_reserved_bytes"].is_null();
    add_peak(out, "peak_reserved_estimate_bytes", trials, &RankRecord::peak_reserved_estimate_bytes,
             on_cpu ? "estimated only in launches with FSDP or a memory budget" : no_peak);
  }
  if (no_times.empty()) {
    add_times(out, group);
    add_parts_of_a_step(out, group);
    add_idle_share(out, trials);
    add_attribution(out, context, trials);
  } else {
    for (const char* name : kTimes) set_unknown(out, name, no_times);
    for (const char* name :
         {"exposed_comm_s", "phase_s", "unaccounted_s", "idle_share", "attribution"}) {
      set_unknown(out, name, no_times);
    }
  }
  return out;
}

}  // namespace gradsync::report
