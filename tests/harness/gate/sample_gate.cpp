#include "tests/harness/gate/sample_gate.h"

#include "harness/gate/claims.h"
#include "tests/harness/results/sample_run.h"

namespace gradsync::test {

using gate::CountDifference;
using gate::Effect;
using gate::GateReport;
using gate::Measure;
using gate::MeasureDecision;
using gate::RowCounts;
using gate::RowDecision;
using gate::RowReport;
using gate::Verdict;
using nlohmann::json;

namespace {

Effect effect(double value, double lo, double hi) {
  return {value, stats::Interval{lo, hi}};
}

MeasureDecision measured(const Effect& candidate, const Effect& control, double p_slower) {
  MeasureDecision measure;
  measure.effect = candidate;
  measure.control = control;
  measure.p.not_slower = 1 - p_slower;
  measure.p_slower = p_slower;
  measure.components = {.within = 1e-4, .between = 4e-6};
  return measure;
}

void decide(RowDecision& times, Verdict verdict, const gate::RowReason reason) {
  times.verdict = verdict;
  times.grounds.reason = reason;
  times.reason = gate::sentence(times, gate::Settings{});
}

// Two starts of eight turns, in which nothing differs.
RowReport row_that_passes(const std::string& topology, const std::string& strategy) {
  RowReport row;
  row.row = {"", sample_cell(topology, strategy)};
  row.counts = RowCounts{};
  RowDecision times;
  times.turns = 16;
  times.is_open = false;
  times.measures[Measure::Low] =
      measured(effect(0.002, -0.001, 0.005), effect(0.001, -0.002, 0.004), 1);
  times.measures[Measure::Mean] =
      measured(effect(-0.004, -0.013, 0.006), effect(0.003, -0.008, 0.014), 1);
  decide(times, Verdict::Pass, gate::RowReason::Small);
  row.times = times;
  row.starts = 2;
  return row;
}

RowReport slower_row() {
  RowReport row = row_that_passes("1x2", "baseline");
  MeasureDecision& low = row.times->measures[Measure::Low];
  low = measured(effect(0.031, 0.027, 0.036), effect(0.001, -0.002, 0.004), 0.00012);
  low.confirmed_effect = effect(0.030, 0.025, 0.036);
  low.confirmed_p = 1.5e-05;
  row.times->measures[Measure::Mean] =
      measured(effect(0.034, 0.021, 0.047), effect(0.003, -0.008, 0.014), 0.004);
  row.times->phases = {{"optimizer", 0.04, effect(0.024, 0.019, 0.03), 2e-4},
                       {"backward", 0.6, effect(0.004, -0.003, 0.01), 0.3}};
  decide(*row.times, Verdict::Regression, gate::RowReason::Slower);
  row.confirmation_turns = 16;
  return row;
}

RowReport row_without_no_sync() {
  RowReport row = row_that_passes("2x1_1gbit", "no_sync");
  row.counts->differences = {
      {"events", "micro-batch 1: 14 more all_reduces, 8.3 MiB (no_sync has no effect)"},
      {"collectives",
       "per step: all_reduce 56 (34655992 bytes) where the baseline has 14 (8663998 bytes)"},
      {"peak_allocated_bytes", "peak of rank 1 is 1 byte more (activation)"}};
  return row;
}

RowReport undecided_row() {
  RowReport row = row_that_passes("2x1_1gbit", "baseline");
  row.times->turns = 24;
  row.times->smallest_visible = 0.034;
  row.times->turns_needed = 40;
  row.times->measures[Measure::Low] =
      measured(effect(0.018, 0.006, 0.034), effect(0.004, -0.006, 0.016), 0.3);
  decide(*row.times, Verdict::Undecided, gate::RowReason::BetweenLimits);
  row.starts = 3;
  return row;
}

RowReport unfit_row() {
  RowReport row = row_that_passes("2x1_1gbit", "accumulate");
  row.times->measures[Measure::Low] =
      measured(effect(0.027, 0.019, 0.035), effect(0.026, 0.019, 0.033), 0.002);
  row.times->measures[Measure::Low].p_control = 0.0008;
  decide(*row.times, Verdict::Unfit, gate::RowReason::ControlOff);
  return row;
}

gate::Claim wanted(gate::Claim::Kind kind, double limit) {
  gate::Claim claim;
  claim.kind = kind;
  claim.limit = limit;
  return claim;
}

gate::ClaimOutcome claim(const std::string& above, const std::string& topology, double ratio,
                         const stats::Interval& ci95, const gate::Claim& wanted, Verdict verdict,
                         gate::ClaimReason reason) {
  gate::ClaimOutcome outcome;
  outcome.about = above + " against no_sync";
  outcome.name = above + " / no_sync, " + topology;
  outcome.row = {"", sample_cell(topology, above)};
  outcome.over = {"", sample_cell(topology, "no_sync")};
  outcome.need = wanted.need();
  outcome.allowed = wanted.allowed();
  results::StepRatio& found = outcome.ratio.emplace();
  found.ratio = ratio;
  found.ci95 = ci95;
  found.interval = "Student's t over 4 launches";
  found.launches = 4;
  found.pairs = 4;
  outcome.verdict = verdict;
  outcome.grounds = {.reason = reason, .at_level = ci95, .level = 0.99, .launches_needed = 20};
  outcome.reason = gate::sentence(outcome);
  return outcome;
}

json context_of(const std::string& commit) {
  json context = sample_context();
  context["commit"] = commit;
  return context;
}

}  // namespace

GateReport sample_gate() {
  GateReport gate;
  gate.plan = "smoke";
  gate.baseline = {"build/before", context_of("3f2c1ab")};
  gate.candidate = {"build/release", context_of("9aa01c2-dirty")};
  gate.asked.emplace();
  gate.notes = {"the machine has 2 CPUs, and 2 ranks of 3 arms wait on them"};
  gate.rows = {row_that_passes("1x2", "no_sync"), slower_row(), row_without_no_sync(),
               undecided_row(), unfit_row()};
  gate.claims_file = "gates/smoke.json";
  gate.claims = {
      claim("baseline", "2x1_1gbit", 2.2, {2.11, 2.3}, wanted(gate::Claim::Kind::AtLeast, 1.5),
            Verdict::Pass, gate::ClaimReason::Holds),
      claim("accumulate", "1x2", 1.04, {0.98, 1.09}, wanted(gate::Claim::Kind::Within, 0.05),
            Verdict::Undecided, gate::ClaimReason::Across),
      claim("no_sync_improper", "2x1_1gbit", 1.5, {1.4, 1.6},
            wanted(gate::Claim::Kind::AtLeast, 2.0), Verdict::Regression,
            gate::ClaimReason::Outside)};
  gate.duration_s = 212;
  gate.time_budget_s = 300;
  return gate;
}

GateReport sample_counts_gate() {
  GateReport gate;
  gate.plan = "smoke";
  gate.baseline = {"results/runs/stored", context_of("3f2c1ab")};
  gate.candidate = {"results/runs/new", context_of("9aa01c2")};
  gate.differences = {
      {"cpu_model", "Processor P", "Processor Q", summary::EffectOnTimes::ForbidsTimes, {}, {}},
      {"start_time",
       "2026-01-31T12:00:00Z",
       "2026-02-28T12:00:00Z",
       summary::EffectOnTimes::None,
       {},
       {}}};
  for (const char* strategy : {"baseline", "no_sync"}) {
    RowReport row = row_that_passes("1x2", strategy);
    row.times.reset();
    row.no_times_because = "counts and bytes only";
    row.starts = 0;
    gate.rows.push_back(row);
  }
  return gate;
}

GateReport sample_jobs_gate() {
  GateReport gate;
  gate.plan = "jobs";
  const nlohmann::json context = {
      {"gradsync", "0.1.0"}, {"commit", "3f2c1ab"}, {"torch", "2.11.0"}, {"world_size", 2}};
  gate.baseline = {"torchrun --standalone train.py", context};
  gate.candidate = {"torchrun --standalone improper.py", context};
  RowReport row;
  row.row = {"", json{{"job", "optimizer step"}}};
  row.counts.emplace();
  row.counts->differences = {
      {"events", "micro-batch 1: 14 more all_reduces, 413.1 MiB (no_sync has no effect)"},
      {"verdict",
       "candidate: synchronizes in every micro-batch (4 x per step; 1 is enough): no_sync encloses "
       "backward but not forward, improper.py line 17; change improper.py line 17: enclose the "
       "forward too: it decides whether backward synchronizes"}};
  row.no_times_because = "counts differ: times were not measured";
  gate.rows = {row};
  return gate;
}

GateReport sample_gate_with_long_names() {
  GateReport gate = sample_gate();
  gate.plan = "slowdown_table";
  gate.claims_file.clear();
  gate.claims.clear();
  for (RowReport& row : gate.rows) row.row.part = "guides_machines";
  RowReport other = row_that_passes("t4_2x1", "no_sync_improper");
  other.row.part = "your_machine";
  gate.rows.push_back(other);
  return gate;
}

}  // namespace gradsync::test
