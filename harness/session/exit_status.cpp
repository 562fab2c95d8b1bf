#include "harness/session/exit_status.h"

#include <algorithm>
#include <string>

#include "harness/coordinate/coordinator.h"

namespace gradsync::session {
namespace {

using results::Status;
using results::TrialRecord;

bool failed_as_expected(const TrialRecord& trial, const plan::Plan& plan) {
  return std::ranges::any_of(plan.parts, [&](const plan::Part& part) {
    return trial.status == Status::Failed && trial.part == part.name &&
           !part.expected_failure.empty() &&
           trial.reason.find(part.expected_failure) != std::string::npos;
  });
}

bool went_wrong(const TrialRecord& trial, const plan::Plan& plan) {
  // Out of a memory budget is an answer; out of the machine's memory is not.
  if (trial.status == Status::Oom) return !trial.cell.memory_budget_bytes();
  const bool bad = trial.status == Status::Failed || trial.status == Status::Timeout ||
                   trial.status == Status::Invalid;
  return bad && !failed_as_expected(trial, plan);
}

}  // namespace

ExitStatus exit_status_of(const std::exception& error) {
  const bool interrupted = dynamic_cast<const coordinate::Interrupted*>(&error) != nullptr;
  return interrupted ? ExitStatus::Interrupted : gradsync::exit_status_of(error);
}

ExitStatus exit_status_of(const std::vector<TrialRecord>& trials, const plan::Plan& plan) {
  const auto any = [&](const auto& holds) { return std::ranges::any_of(trials, holds); };
  if (any([&](const TrialRecord& trial) { return went_wrong(trial, plan); })) {
    return ExitStatus::Failed;
  }
  const auto answered = [&](const TrialRecord& trial) {
    return trial.status == Status::Ok || failed_as_expected(trial, plan);
  };
  return any(answered) ? ExitStatus::Ok : ExitStatus::Unfit;
}

}  // namespace gradsync::session
