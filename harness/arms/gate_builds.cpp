#include "harness/arms/gates.h"

#include <fmt/format.h>

#include "harness/arms/gate_arms.h"
#include "harness/base/errors.h"
#include "harness/session/interrupt.h"

namespace gradsync::arms {
namespace {

using gate::Arm;

void require_valid_times(const GateArms& arms) {
  for (const Arm arm : {Arm::Baseline, Arm::Candidate}) {
    if (arms.of(arm).build().timing_valid) continue;
    throw EnvironmentError(fmt::format("{} {}: times of a debug or sanitizer build mean nothing",
                                       gate::to_string(arm), arms.of(arm).program()),
                           "build it with the release preset, or compare with --counts-only");
  }
}

gate::Side side_of(const ArmProcess& arm) {
  return {arm.program(), arm.build()};
}

}  // namespace

GateFindings compare_builds(const GateQuestion& question) {
  const GateOptions& options = question.options;
  const plan::Plan plan = session::checked_plan(options.run);
  GateArms arms(options.run, {options.baseline, options.candidate}, &session::interrupt_flag());
  GateStages stages(arms, arms.rows(question.rows), question, plan.seed);
  stages.count();
  const auto differ = stages.rows_that_differ();
  if (!differ.empty()) stages.count_control(differ);
  if (stages.wants_times(stages.rows_that_differ().empty())) {
    require_valid_times(arms);
    stages.measure_times();
  }
  GateFindings findings = stages.findings();
  findings.report.plan = plan.name;
  findings.report.baseline = side_of(arms.of(Arm::Baseline));
  findings.report.candidate = side_of(arms.of(Arm::Candidate));
  if (arms.same_program()) {
    findings.report.notes.insert(findings.report.notes.begin(),
                                 "both builds are the same file: what differs is chance");
  }
  return findings;
}

}  // namespace gradsync::arms
