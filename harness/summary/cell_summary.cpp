#include "harness/summary/cell_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "harness/plan/known_options.h"
#include "harness/stats/sample.h"
#include "harness/summary/attribution.h"
#include "harness/summary/launch_times.h"
#include "harness/summary/rank_summary.h"
#include "models/suite.h"

namespace gradsync::summary {

using results::BytesByCategory;
using results::CellResult;
using results::IdleShare;
using results::OpCounts;
using results::ParameterDistance;
using results::RankRecord;
using results::StatisticsSpread;
using results::StepTimes;
using results::TrialAccount;
using results::TrialRecord;

namespace {

using Trials = std::vector<const TrialRecord*>;

template <typename Value>
Known<Value> known_if(bool is_known, Value value, const char* why_not) {
  if (!is_known) return Unknown{why_not};
  return value;
}

std::vector<double> finite(const std::vector<double>& values) {
  std::vector<double> kept;
  std::ranges::copy_if(values, std::back_inserter(kept),
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

StepTimes times_of(const stats::Estimate& mean, const std::vector<double>& steps, double divisor) {
  const auto summary = *stats::summarize(steps);
  StepTimes times;
  times.mean = mean.value / divisor;
  times.median = summary.median / divisor;
  if (summary.sd) times.sd = *summary.sd / divisor;
  times.p5 = stats::quantile(steps, 0.05) / divisor;
  times.p95 = stats::quantile(steps, 0.95) / divisor;
  times.max = summary.max / divisor;
  if (mean.interval) times.ci95 = {mean.interval->lo / divisor, mean.interval->hi / divisor};
  times.n = summary.n;
  return times;
}

// The examples that all ranks train on in a micro-batch; nothing in a cell that does not say.
std::optional<double> examples_of_a_micro_batch(const CellResult& out) {
  if (!out.cell.has("micro_batch_size") || !out.nodes) return std::nullopt;
  return static_cast<double>(out.cell.micro_batch_size()) * *out.nodes * *out.ranks_per_node;
}

void add_times(CellResult& out, const CellGroup& group) {
  const std::vector<double> launches = launch_means(group);
  const std::vector<double> steps = all_steps(group.ok_trials());
  if (launches.empty() || steps.empty()) {
    out.step_s = out.micro_batch_s = out.sample_s = Unknown{"no timed step"};
    return;
  }
  const stats::Estimate mean = stats::mean_of_launches(launches);
  out.interval = interval_kind(mean, launches.size());
  out.no_interval_because = mean.no_interval_because;
  out.step_s = times_of(mean, steps, 1.0);
  if (group.as_published) {
    out.micro_batch_s = out.sample_s =
        Unknown{"as_published windows hold unequal numbers of micro-batches"};
    return;
  }
  const int micro_batches = group.cell.accumulation_steps();
  out.micro_batch_s = times_of(mean, steps, micro_batches);
  out.sample_s = Unknown{"the cell has no micro_batch_size"};
  if (const auto examples = examples_of_a_micro_batch(out)) {
    out.sample_s = times_of(mean, steps, micro_batches * *examples);
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
void add_parts_of_a_step(CellResult& out, const CellGroup& group) {
  const std::vector<TimedBlock> blocks = timed_blocks(group);
  const std::vector<double> weights = step_weights(blocks);
  std::map<std::string, double> phases;
  std::set<std::string> incomplete;
  double exposed_s = 0;
  double unaccounted_s = 0;
  bool has_exposed = !blocks.empty();
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
  out.exposed_comm_s = known_if(has_exposed, exposed_s, "not recorded");
  out.phase_s = known_if(!phases.empty(), phases, "not recorded");
  out.unaccounted_s = known_if(!blocks.empty(), unaccounted_s, "no timed step");
}

Known<IdleShare> idle_share_of(const Trials& trials) {
  const std::vector<double> by_rank = idle_share_by_rank(trials);
  if (by_rank.empty()) return Unknown{"not recorded"};
  return IdleShare{stats::mean(by_rank), by_rank};
}

Known<ParameterDistance> distance_of(const Trials& trials) {
  const std::vector<double> after_step = largest_parameter_distance(trials);
  if (after_step.empty()) return Unknown{"not measured"};
  return ParameterDistance{after_step.back(), after_step};
}

double inequality(const TrialAccount& account) {
  return std::max(account.weight_max - 1, 1 - account.weight_min);
}

// Returns the account of the trial whose weights are farthest from equal; if no trial has one, the
// first reason.
Known<TrialAccount> account_of(const Trials& trials) {
  const TrialRecord* shown = nullptr;
  std::string why_not;
  for (const TrialRecord* trial : trials) {
    if (why_not.empty()) why_not = trial->account_why_not;
    if (!trial->account) continue;
    if (shown == nullptr || inequality(*trial->account) > inequality(*shown->account)) {
      shown = trial;
    }
  }
  if (shown != nullptr) return *shown->account;
  return Unknown{why_not.empty() ? "not recorded" : why_not};
}

Known<OpCounts> collectives_of(const Trials& trials) {
  const OpCounts& first = trials.front()->ledger.per_step;
  const bool agree = std::ranges::all_of(
      trials, [&](const TrialRecord* trial) { return trial->ledger.per_step == first; });
  return known_if(agree, first, "differs between trials; see trials.jsonl");
}

using Bytes = std::optional<std::int64_t> RankRecord::*;

// The rank of which `counts` that holds most by `field`; nullptr where none knows it.
template <typename Counts>
const RankRecord* highest_rank(const Trials& trials, Bytes field, Counts counts) {
  const RankRecord* highest = nullptr;
  for (const TrialRecord* trial : trials) {
    for (const RankRecord& rank : trial->ranks) {
      if (!(rank.*field) || !counts(rank)) continue;
      if (highest == nullptr || *(rank.*field) > *(highest->*field)) highest = &rank;
    }
  }
  return highest;
}

Known<std::int64_t> peak_of(const Trials& trials, Bytes field, const std::string& if_unknown) {
  const auto any = [](const RankRecord&) { return true; };
  const RankRecord* highest = highest_rank(trials, field, any);
  if (highest == nullptr) return Unknown{if_unknown};
  return *(highest->*field);
}

// Returns the composition on the rank whose peak is the cell's.
Known<BytesByCategory> composition_of(const Trials& trials, const std::string& if_unknown) {
  const auto says = [](const RankRecord& rank) { return !rank.peak_by_category.empty(); };
  const RankRecord* highest = highest_rank(trials, &RankRecord::peak_allocated_bytes, says);
  if (highest == nullptr) return Unknown{if_unknown};
  return highest->peak_by_category;
}

void add_peaks(CellResult& out, const results::Context& context, const Trials& trials) {
  const std::string& no_peak = context.peak_memory_reason;
  out.peak_allocated_bytes = peak_of(trials, &RankRecord::peak_allocated_bytes, no_peak);
  out.peak_by_category = composition_of(trials, no_peak);
  if (const auto host = peak_of(trials, &RankRecord::host_peak_allocated_bytes, "")) {
    out.host_peak_allocated_bytes = *host;
  }
  out.peak_reserved_bytes = peak_of(trials, &RankRecord::peak_reserved_bytes, no_peak);
  const bool on_cpu = out.peak_allocated_bytes && !out.peak_reserved_bytes;
  out.peak_reserved_estimate_bytes =
      peak_of(trials, &RankRecord::peak_reserved_estimate_bytes,
              on_cpu ? "estimated only in launches with FSDP or a memory budget" : no_peak);
}

// Returns the spread of the trial in which the ranks were farthest apart at its end; nothing for a
// model without batch normalization, or for one rank.
std::optional<StatisticsSpread> widest_spread(const Trials& trials) {
  std::optional<StatisticsSpread> widest;
  for (const TrialRecord* trial : trials) {
    const auto spread = statistics_spread(*trial);
    if (!spread) continue;
    if (!widest) widest = spread;
    widest->mean_gap = std::max(widest->mean_gap, spread->mean_gap);
    widest->variance_ratio = std::max(widest->variance_ratio, spread->variance_ratio);
  }
  return widest;
}

// Every trial of a cell has the same one, those that did not end well included.
void add_prediction(CellResult& out, const CellGroup& group) {
  const auto declared = std::ranges::find_if(group.trials, [](const TrialRecord* trial) {
    return trial->predicted_peak_allocated_bytes.has_value();
  });
  if (declared == group.trials.end()) {
    const std::string unknown = plan::why_unknown(out.cell.written(), plan::Prediction::Memory);
    const Unknown why{unknown.empty() ? "the model and its options do not declare what they hold"
                                      : unknown};
    out.predicted_peak_allocated_bytes = why;
    out.predicted_peak_by_category = why;
    return;
  }
  out.predicted_peak_allocated_bytes = *(*declared)->predicted_peak_allocated_bytes;
  out.predicted_peak_by_category = (*declared)->predicted_peak_by_category;
  out.predicted_host_peak_allocated_bytes = (*declared)->predicted_host_peak_allocated_bytes;
}

void add_place(CellResult& out, const CellGroup& group) {
  for (const TrialRecord* trial : group.trials) {
    std::set<int> nodes;
    for (const RankRecord& rank : trial->ranks) nodes.insert(rank.node);
    if (nodes.empty()) continue;
    out.nodes = static_cast<int>(nodes.size());
    out.ranks_per_node = static_cast<int>(trial->ranks.size() / nodes.size());
    return;
  }
}

void add_trials(CellResult& out, const results::Context& context, const CellGroup& group) {
  // Where no trial got as far as to say, the suite knows.
  bool paced = models::compute_of(group.cell.model()) == models::Compute::Paced;
  const bool paper = context.device == "paper";
  std::set<int> launches;
  for (const TrialRecord* trial : group.trials) {
    ++out.trials[results::to_string(trial->status)];
    if (trial->model_info) {
      paced = trial->model_info->paced.value_or(paced);
      if (!trial->model_info->host_reads_back.empty()) {
        out.host_reads_back = trial->model_info->host_reads_back;
      }
    }
    if (trial->status == results::Status::Ok) launches.insert(trial->launch);
  }
  out.timing = paper   ? results::Timing::Paper
               : paced ? results::Timing::Paced
                       : results::Timing::Real;
  out.launches = launches.size();
  out.blocks = group.ok_trials().size();
}

CellResult description(const results::Context& context, const CellGroup& group) {
  const GroupOutcome outcome = outcome_of(group);
  CellResult out;
  out.part = group.part;
  out.cell = group.cell;
  out.status = outcome.status;
  out.reason = outcome.reason;
  out.oom_place = outcome.oom_place;
  out.scale = group.cell.scale();
  add_place(out, group);
  add_trials(out, context, group);
  add_prediction(out, group);
  return out;
}

void add_what_was_sent_and_held(CellResult& out, const results::Context& context,
                                const Trials& trials) {
  out.collectives_per_step = collectives_of(trials);
  for (const TrialRecord* trial : trials) {
    out.declared_micro_batches =
        std::max(out.declared_micro_batches, trial->ledger.declared_micro_batches);
  }
  out.running_statistics = widest_spread(trials);
  out.parameter_distance = distance_of(trials);
  out.account = account_of(trials);
  add_peaks(out, context, trials);
}

void nothing_was_sent_and_held(CellResult& out, const Unknown& why) {
  out.collectives_per_step = why;
  out.parameter_distance = why;
  out.account = why;
  out.peak_allocated_bytes = out.peak_reserved_bytes = out.peak_reserved_estimate_bytes = why;
  out.peak_by_category = why;
}

void there_are_no_times(CellResult& out, const Unknown& why) {
  out.step_s = out.micro_batch_s = out.sample_s = why;
  out.exposed_comm_s = out.unaccounted_s = why;
  out.phase_s = why;
  out.idle_share = why;
  out.attribution = why;
}

}  // namespace

std::string interval_kind(const stats::Estimate& estimate, std::size_t launches) {
  if (!estimate.interval) return "none: " + estimate.no_interval_because;
  return fmt::format("Student's t over {} launches", launches);
}

std::string timing_objection(const results::Context& context, const CellGroup& group) {
  if (!context.timing_valid) return context.timing_reason;
  for (const TrialRecord* trial : group.trials) {
    if (!trial->model_info || trial->model_info->has_valid_times()) continue;
    const std::string& reason = trial->model_info->timing_reason;
    return reason.empty() ? "more ranks than cores compute at once" : reason;
  }
  return "";
}

CellResult summarize_cell(const results::Context& context, const CellGroup& group) {
  CellResult out = description(context, group);
  const Trials trials = group.ok_trials();
  if (trials.empty()) {
    const Unknown why{"no trial ended well"};
    nothing_was_sent_and_held(out, why);
    there_are_no_times(out, why);
    return out;
  }
  add_what_was_sent_and_held(out, context, trials);
  if (const std::string why = timing_objection(context, group); !why.empty()) {
    there_are_no_times(out, Unknown{why});
    return out;
  }
  add_times(out, group);
  add_parts_of_a_step(out, group);
  out.idle_share = idle_share_of(trials);
  out.attribution = attribution_of(trials, HostClocks(context));
  return out;
}

}  // namespace gradsync::summary
