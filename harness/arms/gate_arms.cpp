#include "harness/arms/gate_arms.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "harness/base/errors.h"
#include "harness/plan/plan.h"
#include "harness/results/block_time.h"

namespace gradsync::arms {
namespace {

using gate::Arm;
using results::Parameters;

// The parameters that both know: a newer build may have one more, at its default.
bool same_where_both_say(const Parameters& a, const Parameters& b) {
  return std::ranges::all_of(a.names(), [&](const std::string& name) {
    return !b.has(name) || b.value(name) == a.value(name);
  });
}

bool same_rows(const ArmLaunch& a, const ArmLaunch& b) {
  if (a.part != b.part || a.topology != b.topology || a.scale != b.scale) return false;
  if (a.cells.size() != b.cells.size()) return false;
  for (std::size_t i = 0; i < a.cells.size(); ++i) {
    if (!same_where_both_say(a.cells[i], b.cells[i])) return false;
  }
  return true;
}

void require_same_rows(const ArmProcess& baseline, const ArmProcess& candidate) {
  const auto& a = baseline.launches();
  const auto& b = candidate.launches();
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i < a.size() && i < b.size() && same_rows(a[i], b[i])) continue;
    const auto text = [&](const auto& launches) {
      if (i >= launches.size()) return std::string("none");
      return fmt::format("{} rows on {}", launches[i].cells.size(), launches[i].topology);
    };
    throw ConfigError(fmt::format(
        "candidate {}: has other rows than the baseline {}: launch {}: got {}, expected {}",
        candidate.program(), baseline.program(), i + 1, text(b), text(a)));
  }
}

results::TrialRecord not_run(const GateRow& row, const ArmFailure& failure) {
  results::TrialRecord record;
  record.part = row.row.part;
  record.cell = row.row.cell;
  record.status = results::Status::Failed;
  record.reason = failure.reason;
  return record;
}

int warmup_steps_of(const plan::Plan& plan, const std::string& part_name) {
  for (const plan::Part& part : plan.parts) {
    if (part.name == part_name) return part.warmup_steps;
  }
  return plan::Part{}.warmup_steps;
}

}  // namespace

GateArms::GateArms(const session::RunOptions& options, const GateBuilds& builds,
                   const std::atomic<bool>* interrupted)
    : options_(options), builds_(builds), interrupted_(interrupted) {
  arms_[0] = start(builds_.baseline, 0);
  arms_[1] = start(builds_.candidate, 0);
  require_same_rows(of(Arm::Baseline), of(Arm::Candidate));
}

std::unique_ptr<ArmProcess> GateArms::start(const std::string& build, double extra_work) const {
  return std::make_unique<ArmProcess>(build, arm_arguments(options_, extra_work), interrupted_);
}

void GateArms::start_control() {
  auto& control = arms_[static_cast<std::size_t>(Arm::Control)];
  if (!control) control = start(builds_.baseline, 0);
}

void GateArms::exchange_baselines(bool exchanged) {
  if (exchanged == are_exchanged_) return;
  are_exchanged_ = exchanged;
  std::swap(arms_[static_cast<std::size_t>(Arm::Baseline)],
            arms_[static_cast<std::size_t>(Arm::Control)]);
}

void GateArms::restart_candidate(double extra_work) {
  const auto candidate = static_cast<std::size_t>(Arm::Candidate);
  arms_[candidate].reset();
  arms_[candidate] = start(builds_.candidate, extra_work);
}

bool GateArms::same_program() const {
  std::error_code error;
  return std::filesystem::equivalent(of(Arm::Baseline).program(), of(Arm::Candidate).program(),
                                     error);
}

std::vector<GateRow> GateArms::rows(const std::vector<gate::RowFilter>& filters) const {
  std::vector<gate::Row> all;
  for (const ArmLaunch& launch : of(Arm::Baseline).launches()) {
    for (const Parameters& cell : launch.cells) all.push_back({launch.part, cell});
  }
  const std::vector<gate::Row> selected = gate::select_rows(all, filters);
  const plan::Plan plan = session::checked_plan(options_);
  std::vector<GateRow> rows;
  const auto& launches = of(Arm::Baseline).launches();
  for (std::size_t launch = 0; launch < launches.size(); ++launch) {
    const int warmup_steps = warmup_steps_of(plan, launches[launch].part);
    for (std::size_t cell = 0; cell < launches[launch].cells.size(); ++cell) {
      const gate::Row row{launches[launch].part, launches[launch].cells[cell]};
      if (std::find(selected.begin(), selected.end(), row) == selected.end()) continue;
      rows.push_back({row, launch, cell, warmup_steps});
    }
  }
  return rows;
}

Block GateArms::run(Arm arm, const GateRow& row, int warmup_steps, int steps) {
  ArmProcess& process = of(arm);
  if (process.open_launch() != row.launch) {
    if (const auto failure = process.open(row.launch)) return {not_run(row, *failure)};
  }
  Block block{process.turn({.cell = row.cell, .warmup_steps = warmup_steps, .steps = steps})};
  if (const auto time = results::block_time(block.trial)) block.elapsed_s = time->elapsed_s;
  block.phase_s = mean_phases(block.trial.ranks, static_cast<std::size_t>(steps));
  return block;
}

void GateArms::close() {
  for (const auto& arm : arms_) {
    if (arm) arm->close();
  }
}

}  // namespace gradsync::arms
