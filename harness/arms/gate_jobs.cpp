#include "harness/arms/gates.h"

#include <fmt/format.h>

#include "harness/arms/job_arms.h"
#include "harness/base/log.h"
#include "harness/gate/held_counts.h"
#include "harness/plan/plan.h"
#include "harness/session/interrupt.h"

namespace gradsync::arms {
namespace {

using gate::Arm;

constexpr const char* kName = "jobs";

// The watcher's words for what the counts of the candidate mean; nothing where it has none that it
// has not for the baseline's as well.
std::optional<gate::CountDifference> verdict_difference(const JobArms& arms) {
  const auto& baseline = arms.watched(Arm::Baseline);
  const auto& candidate = arms.watched(Arm::Candidate);
  if (!baseline || !candidate) return std::nullopt;
  if (baseline->verdicts.front().kind == candidate->verdicts.front().kind) return std::nullopt;
  return gate::CountDifference{
      "verdict", "candidate: " + watch::verdict_sentence(candidate->verdicts.front())};
}

bool is_newly_wrong(const JobArms& arms) {
  return verdict_difference(arms) && watch::has_excess(*arms.watched(Arm::Candidate)) &&
         !watch::has_excess(*arms.watched(Arm::Baseline));
}

// Whether the baseline's second start was seen, and the verdict on it is that on the first.
bool has_steady_verdict(const JobArms& arms) {
  const auto& baseline = arms.watched(Arm::Baseline);
  const auto& control = arms.watched(Arm::Control);
  return baseline && control && baseline->verdicts.front().kind == control->verdicts.front().kind &&
         watch::has_excess(*baseline) == watch::has_excess(*control);
}

// Puts the watcher's words beside the counts that differ. Where none does that is not chance, they
// are a difference only if they find something newly wrong, which the baseline never is.
void add_verdict(gate::RowCounts& counts, const JobArms& arms) {
  const auto difference = verdict_difference(arms);
  if (!difference) return;
  const bool are_alike = counts.differences.empty();
  if (has_steady_verdict(arms)) {
    if (!are_alike || is_newly_wrong(arms)) counts.differences.push_back(*difference);
  } else if (are_alike && counts.unfit_because.empty()) {
    counts.unfit_because = "the verdicts on the baseline's own starts differ";
  }
}

// What the candidate computes otherwise, by the rules of a file of counts.
gate::HeldDifferences compare_work(const JobArms& arms) {
  if (!arms.work(Arm::Baseline) || !arms.work(Arm::Candidate)) return {};
  gate::HeldCounts baseline;
  gate::HeldCounts candidate;
  baseline.work = arms.work(Arm::Baseline);
  candidate.work = arms.work(Arm::Candidate);
  return gate::held_differences(baseline, candidate);
}

bool computes_the_same(const JobArms& arms) {
  return compare_work(arms).differences.empty();
}

// Where the baseline is not its own equal, its work may be chance as well.
void add_work(gate::RowCounts& counts, const JobArms& arms) {
  if (!counts.unfit_because.empty()) return;
  const auto work = compare_work(arms).differences;
  counts.differences.insert(counts.differences.end(), work.begin(), work.end());
}

// Returns the number of steps of a start in words; "": not known.
std::string steps_of_a_start(const GateStages& stages) {
  const int pass_steps = stages.pass_steps(0);
  if (pass_steps == 0) return "";
  const gate::Settings& settings = stages.settings();
  const int in_turns =
      settings.start_turns * settings.passes * (settings.settle_steps + pass_steps);
  return fmt::format(": a start takes about {} steps", JobArms::row().warmup_steps + in_turns);
}

// What was seen decides nothing, but what differs in counts stays different.
void leave_undecided(gate::RowReport& row, const std::string& because) {
  if (row.counts && !row.counts->differences.empty()) return;
  if (row.counts && !row.counts->unfit_because.empty()) row.counts.reset();
  if (!row.times) row.times.emplace();
  row.times->verdict = gate::Verdict::Undecided;
  row.times->reason = because;
}

void add_notes(std::vector<std::string>& notes, const JobArms& arms) {
  if (arms.same_command()) {
    notes.insert(notes.begin(), "both commands are the same: what differs is chance");
  }
  for (const Arm arm : {Arm::Baseline, Arm::Candidate}) {
    if (!arms.watched(arm)) continue;
    for (const std::string& fault : arms.watched(arm)->faults) {
      notes.push_back(fmt::format("{}: {}", gate::to_string(arm), fault));
    }
  }
  for (const std::string& note : compare_work(arms).notes) notes.push_back(note);
}

// Says what of its work is chance, and which lines the rest comes from.
void start_again(JobArms& arms, Arm arm) {
  log::info(fmt::format("the {} is started once more: which lines does its work come from?",
                        gate::to_string(arm)));
  arms.run(arm, JobArms::row(), JobArms::row().warmup_steps, 1);
  arms.close();
}

// Where they are not, the control says what of it is chance: a peak of memory that is none to hold.
// `work_decides`: a step that computes something else is a difference.
bool are_counts_alike(GateStages& stages, JobArms& arms, bool work_decides) {
  const auto seem_alike = [&] {
    return stages.rows_that_differ().empty() && !is_newly_wrong(arms) &&
           (!work_decides || computes_the_same(arms));
  };
  if (seem_alike()) return true;
  arms.count_work(CountedWork::OperatorsAndLines);
  stages.count_control({0});
  if (!stages.rows_that_tell_nothing().empty()) return false;
  if (!computes_the_same(arms)) start_again(arms, Arm::Candidate);
  return seem_alike();
}

// Most changes of a training script change what a step computes, so times decide. Says beside them
// what differs, and of a candidate that is slower from which lines it comes.
void explain_times(gate::GateReport& report, JobArms& arms) {
  const gate::RowReport& row = report.rows.front();
  if (computes_the_same(arms)) return;
  if (row.times && row.times->verdict == gate::Verdict::Regression) {
    arms.count_work(CountedWork::OperatorsAndLines);
    for (const Arm arm : {Arm::Baseline, Arm::Candidate}) start_again(arms, arm);
  }
  for (const gate::CountDifference& difference : compare_work(arms).differences) {
    report.notes.push_back("the candidate computes something else: " + difference.sentence);
  }
}

}  // namespace

GateFindings compare_jobs(const GateQuestion& question, const std::string& directory) {
  JobArms arms(question.options, directory, &session::interrupt_flag());
  GateStages stages(arms, {JobArms::row()}, question, plan::Plan{}.seed);
  arms.count_work(CountedWork::Operators);
  stages.count();
  const bool alike = are_counts_alike(stages, arms, question.options.counts_only);
  arms.count_work(CountedWork::None);
  if (stages.wants_times(alike)) stages.measure_times();
  arms.close();
  GateFindings findings = stages.findings();
  gate::GateReport& report = findings.report;
  report.plan = kName;
  report.baseline = arms.side(Arm::Baseline);
  report.candidate = arms.side(Arm::Candidate);
  gate::RowReport& row = report.rows.front();
  if (!alike && row.counts) {
    add_work(*row.counts, arms);
    add_verdict(*row.counts, arms);
  }
  if (!arms.over_early().empty()) {
    leave_undecided(row, arms.over_early() + steps_of_a_start(stages));
  }
  add_notes(report.notes, arms);
  if (alike) explain_times(report, arms);
  if (row.counts && !row.counts->no_peaks_because.empty()) {
    report.notes.push_back("peak memory is not held: " + row.counts->no_peaks_because);
  }
  return findings;
}

}  // namespace gradsync::arms
