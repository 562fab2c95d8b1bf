#include "harness/arms/gate_measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>

#include "harness/base/clock.h"
#include "harness/base/log.h"

namespace gradsync::arms {
namespace {

using gate::Arm;
using results::Status;
using results::TrialRecord;

// Enough steps to see what one costs, few enough that counts are known in seconds.
constexpr int kCountedSteps = 3;

// In so many starts every arm has every place once.
constexpr std::size_t kBalancedStarts = gate::kArms.size();

bool has_times(const Block& block) {
  return block.trial.status == Status::Ok && block.elapsed_s > 0;
}

std::string why_unfit(Arm arm, const TrialRecord& trial) {
  return fmt::format("{} of the {}: {}", results::to_string(trial.status), gate::to_string(arm),
                     trial.reason);
}

// What many blocks can be kept of.
TrialRecord without_events(TrialRecord trial) {
  for (results::RankRecord& rank : trial.ranks) {
    rank.memory_timeline.clear();
    rank.timeline_events.clear();
    rank.timeline_phases.clear();
  }
  return trial;
}

}  // namespace

GateMeasurement::GateMeasurement(ResidentArms& arms, const std::vector<GateRow>& rows,
                                 const gate::Settings& settings, std::uint64_t seed,
                                 std::function<void(const GateProgress&)> tick)
    : arms_(arms), settings_(settings), random_(seed), tick_(std::move(tick)) {
  for (const GateRow& row : rows) rows_.emplace_back().row = row;
}

std::vector<std::vector<std::size_t>> GateMeasurement::by_launch(
    const std::vector<std::size_t>& which) const {
  std::map<std::size_t, std::vector<std::size_t>> launches;
  for (const std::size_t index : which) launches[rows_[index].row.launch].push_back(index);
  std::vector<std::vector<std::size_t>> out;
  for (auto& [launch, rows] : launches) out.push_back(std::move(rows));
  return out;
}

void GateMeasurement::count() {
  progress_ = {"counts", 0, 2 * rows_.size()};
  std::vector<std::size_t> all(rows_.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  for (const Arm arm : {Arm::Baseline, Arm::Candidate}) count_in(arm, all);
  arms_.close();
}

void GateMeasurement::count_control(const std::vector<std::size_t>& which) {
  progress_ = {"counts of the control", 0, which.size()};
  count_in(Arm::Control, which);
  arms_.close();
}

void GateMeasurement::count_in(Arm arm, const std::vector<std::size_t>& which) {
  std::set<std::size_t> resident;  // launches whose ranks are up in this arm
  for (const std::size_t index : which) {
    MeasuredRow& row = rows_[index];
    const std::size_t launch = row.row.launch;
    const bool opens = resident.insert(launch).second;
    const std::int64_t begin_ns = steady_clock().now_ns();
    Block block = arms_.run(arm, row.row, row.row.warmup_steps, kCountedSteps);
    if (opens) {
      start_s_[launch] = std::max(start_s_[launch], seconds(steady_clock().now_ns() - begin_ns));
    } else {
      note_switch(launch, begin_ns, block);
    }
    block = last_try(row, arm, std::move(block));
    if (!has_times(block)) {
      const std::string because = why_unfit(arm, block.trial);
      if (arm == Arm::Control) row.uncounted_control = because;
      if (row.unfit_because.empty()) row.unfit_because = because;
    }
    if (arm == Arm::Baseline) row.counted_step_s = block.mean_step_s();
    remember(row, arm, block.trial);
  }
}

// Ranks that could not be started and links that were not there yet fail by chance.
Block GateMeasurement::last_try(const MeasuredRow& row, Arm arm, Block block) {
  const Status status = block.trial.status;
  if (arm == Arm::Baseline || status == Status::Ok || status == Status::Skipped) return block;
  if (row.baseline.empty() || row.baseline.front().status == status) return block;
  log::warn(fmt::format("{}; it is tried once more", why_unfit(arm, block.trial)));
  return arms_.run(arm, row.row, row.row.warmup_steps, kCountedSteps);
}

// The quickest says what it costs at least; some of the others waited for the machine.
void GateMeasurement::note_switch(std::size_t launch, std::int64_t begin_ns, const Block& block) {
  double beyond_s = seconds(steady_clock().now_ns() - begin_ns) - block.elapsed_s;
  for (const double step_s : block.trial.warmup_step_s) beyond_s -= step_s;
  double& quickest_s = switch_s_.try_emplace(launch, beyond_s).first->second;
  quickest_s = std::max(0.0, std::min(quickest_s, beyond_s));
}

std::vector<gate::LaunchCost> GateMeasurement::costs(const std::vector<std::size_t>& which) const {
  std::map<std::size_t, gate::LaunchCost> launches;
  for (const std::size_t index : which) {
    const MeasuredRow& row = rows_[index];
    if (!row.unfit_because.empty()) continue;
    gate::LaunchCost& cost = launches[row.row.launch];
    cost.start_s = static_cast<double>(gate::kArms.size()) * start_s_.at(row.row.launch);
    const auto switch_s = switch_s_.find(row.row.launch);
    cost.switch_s = switch_s == switch_s_.end() ? 0 : switch_s->second;
    cost.warmup_steps = std::max(cost.warmup_steps, row.row.warmup_steps);
    cost.step_s.push_back(row.counted_step_s);
  }
  std::vector<gate::LaunchCost> out;
  for (const auto& [launch, cost] : launches) out.push_back(cost);
  return out;
}

void GateMeasurement::start(const std::string& stage, const std::vector<std::size_t>& which,
                            int turns) {
  take_turns(stage, which, turns, &MeasuredRow::turns);
}

void GateMeasurement::confirm(const std::string& stage, const std::vector<std::size_t>& which,
                              int turns) {
  take_turns(stage, which, turns, &MeasuredRow::confirmation);
}

void GateMeasurement::take_turns(const std::string& stage, const std::vector<std::size_t>& which,
                                 int turns, Turns into) {
  const std::size_t arms = gate::kArms.size();
  const auto passes = static_cast<std::size_t>(settings_.passes);
  progress_ = {stage, 0, which.size() * arms * (static_cast<std::size_t>(turns) * passes + 1)};
  arms_.close();
  const gate::StartDraw draw = draw_start();
  arms_.exchange_baselines(draw.exchanges_baselines);
  for (const auto& launch : by_launch(which)) {
    warm_up(launch, draw.order);
    std::map<std::size_t, std::vector<gate::ArmOrder>> orders;
    for (const std::size_t index : launch) orders[index] = gate::turn_orders(turns, random_);
    for (std::size_t turn = 0; turn < static_cast<std::size_t>(turns); ++turn) {
      for (const std::size_t index : launch) take_turn(rows_[index], orders[index][turn], into);
    }
    arms_.close();
  }
  ++starts_;
}

// Places are dealt out over all starts, those of a confirmation too.
const gate::StartDraw& GateMeasurement::draw_start() {
  const auto start = static_cast<std::size_t>(starts_);
  if (start == draws_.size()) {
    const auto next = gate::start_draws(kBalancedStarts, random_);
    draws_.insert(draws_.end(), next.begin(), next.end());
  }
  return draws_[start];
}

// At which step since the start of the ranks each row's first turn begins, beyond the warm-up.
std::map<std::size_t, int> GateMeasurement::draw_phases(const std::vector<std::size_t>& which) {
  std::map<std::size_t, int> phases;
  for (const std::size_t index : which) {
    phases[index] =
        static_cast<int>(random_.below(static_cast<std::size_t>(settings_.phase_steps)));
  }
  return phases;
}

// Runs the first steps, with their one-time costs, before the first turn, in the order in which the
// arms start. The baseline's first steps show how many steps fill a pass; the number is the same in
// every start.
void GateMeasurement::warm_up(const std::vector<std::size_t>& which, const gate::ArmOrder& order) {
  const std::map<std::size_t, int> phases = draw_phases(which);
  const int steps = starts_ == 0 ? kCountedSteps : 1;
  for (const Arm arm : order) {
    for (const std::size_t index : which) {
      MeasuredRow& row = rows_[index];
      if (!row.unfit_because.empty()) continue;
      const int warmup_steps = row.row.warmup_steps + phases.at(index);
      Block block = arms_.run(arm, row.row, warmup_steps, steps);
      if (row.pass_steps == 0 && arm == Arm::Baseline && has_times(block)) {
        row.pass_steps = gate::pass_steps(settings_, block.mean_step_s());
      }
      keep(row, arm, std::move(block));
    }
  }
}

void GateMeasurement::take_turn(MeasuredRow& row, const gate::ArmOrder& order, Turns into) {
  gate::Turn turn;
  turn.start = starts_;
  turn.order = order;
  gate::ArmOrder pass_order = order;
  bool knows_phases = true;
  for (int pass = 0; pass < settings_.passes; ++pass) {
    for (const Arm arm : pass_order) {
      if (!row.unfit_because.empty()) return;
      Block block = arms_.run(arm, row.row, settings_.settle_steps, row.pass_steps);
      const std::vector<double>& steps = block.trial.step_s;
      turn.of(arm).insert(turn.of(arm).end(), steps.begin(), steps.end());
      turn.elapsed_s[static_cast<std::size_t>(arm)] += block.elapsed_s;
      knows_phases = knows_phases && !block.phase_s.empty();
      for (const auto& [phase, spent_s] : block.phase_s) {
        turn.phase_s[phase][static_cast<std::size_t>(arm)] += spent_s;
      }
      if (!keep(row, arm, std::move(block))) return;
    }
    std::reverse(pass_order.begin(), pass_order.end());
  }
  if (!knows_phases) turn.phase_s.clear();
  (row.*into).push_back(std::move(turn));
}

void GateMeasurement::remember(MeasuredRow& row, Arm arm, const TrialRecord& trial) {
  ++progress_.done;
  tick_(progress_);
  auto& kept = arm == Arm::Candidate ? row.candidate : row.baseline;
  if (kept.empty() || !gate::count_differences(kept.front(), trial).empty()) kept.push_back(trial);
  if (arm == Arm::Candidate && trial.status == Status::Ok) {
    row.candidate_times.push_back(without_events(trial));
  }
}

bool GateMeasurement::keep(MeasuredRow& row, Arm arm, Block block) {
  const bool good = has_times(block);
  if (!good && row.unfit_because.empty()) {
    row.unfit_because = why_unfit(arm, block.trial);
    block = last_try(row, arm, std::move(block));
    if (has_times(block)) row.unfit_because += "; when it was tried once more it did not fail";
  }
  remember(row, arm, block.trial);
  return good;
}

std::vector<gate::RowEvidence> GateMeasurement::evidence() const {
  std::vector<gate::RowEvidence> evidence;
  for (const MeasuredRow& row : rows_) {
    evidence.push_back({gate::differences(row.turns, settings_.low_quantile),
                        gate::differences(row.confirmation, settings_.low_quantile),
                        row.unfit_because});
  }
  return evidence;
}

gate::TurnFamily GateMeasurement::family(const std::vector<std::size_t>& which) const {
  gate::TurnFamily family;
  family.context = nlohmann::json::object();
  family.passes = settings_.passes;
  family.settle_steps = settings_.settle_steps;
  family.starts.assign(draws_.begin(), std::next(draws_.begin(), starts_));
  for (const std::size_t index : which) {
    const MeasuredRow& row = rows_[index];
    std::vector<gate::Turn> turns = row.turns;
    turns.insert(turns.end(), row.confirmation.begin(), row.confirmation.end());
    family.rows.push_back({row.row.row.part, row.row.row.cell, std::move(turns)});
  }
  return family;
}

gate::RowCounts GateMeasurement::counts(std::size_t row) const {
  // Whether what differs is chance was asked and not answered.
  if (!rows_[row].uncounted_control.empty()) return {{}, rows_[row].uncounted_control, ""};
  std::vector<const TrialRecord*> baseline;
  std::vector<const TrialRecord*> candidate;
  for (const TrialRecord& trial : rows_[row].baseline) baseline.push_back(&trial);
  for (const TrialRecord& trial : rows_[row].candidate) candidate.push_back(&trial);
  return gate::compare_counts(baseline, candidate, rows_[row].row.peaks);
}

}  // namespace gradsync::arms
