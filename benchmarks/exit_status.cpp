#include "benchmarks/exit_status.h"

#include <algorithm>
#include <cstddef>

#include "harness/run/coordinator.h"

namespace gradsync::cli {

namespace {

template <typename Type>
bool is(const std::exception& error) {
  return dynamic_cast<const Type*>(&error) != nullptr;
}

}  // namespace

ExitStatus exit_status_of(const std::exception& error) {
  if (is<run::Interrupted>(error)) return ExitStatus::Interrupted;
  if (is<ConfigError>(error)) return ExitStatus::Config;
  if (is<EnvironmentError>(error)) return ExitStatus::Unfit;
  if (is<ResultsError>(error) || is<CommError>(error)) return ExitStatus::Failed;
  return ExitStatus::Internal;
}

ExitStatus exit_status_of(const std::vector<results::TrialRecord>& trials) {
  using results::Status;
  const auto count = [&](auto... statuses) {
    return std::count_if(trials.begin(), trials.end(), [&](const results::TrialRecord& trial) {
      return ((trial.status == statuses) || ...);
    });
  };
  // Out of a memory budget is an answer; out of the machine's memory is not.
  const bool out_of_machine = std::any_of(trials.begin(), trials.end(), [](const auto& trial) {
    return trial.status == Status::Oom && !trial.cell.contains("memory_budget_bytes");
  });
  if (out_of_machine || count(Status::Failed, Status::Timeout, Status::Invalid) > 0) {
    return ExitStatus::Failed;
  }
  return count(Status::Ok) > 0 ? ExitStatus::Ok : ExitStatus::Unfit;
}

}  // namespace gradsync::cli
