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
  if (count(Status::Skipped) == static_cast<std::ptrdiff_t>(trials.size()))
    return ExitStatus::Unfit;
  if (count(Status::Failed, Status::Timeout, Status::Invalid, Status::Oom) > 0) {
    return ExitStatus::Failed;
  }
  return ExitStatus::Ok;
}

}  // namespace gradsync::cli
