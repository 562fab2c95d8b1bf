#include "harness/session/finished_runs.h"

#include <fmt/format.h>

#include "harness/base/errors.h"
#include "harness/base/log.h"
#include "harness/results/store.h"
#include "harness/session/child_program.h"
#include "harness/session/interrupt.h"
#include "harness/summary/build_result.h"

namespace gradsync::session {

summary::FinishedRun read_run(const std::string& directory) {
  summary::FinishedRun run{.directory = directory, .result = {}, .trials = {}};
  const results::StoredResult stored = results::read_result(directory);
  std::string warning;
  run.trials = results::read_trials(directory, &warning);
  if (!warning.empty()) log::warn(warning);
  run.result = summary::build_result(stored.context, stored.plan, run.trials);
  run.result.exit_status = stored.exit_status;
  return run;
}

summary::FinishedRun run_plan_with(const std::string& program, const RunOptions& options,
                                   const std::string& directory) {
  const std::vector<std::string> arguments = plan_arguments(options);
  std::vector<std::string> command{program, "run"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  command.insert(command.end(), {"--out", directory});
  if (options.quiet) command.emplace_back("--quiet");
  const int status = run_program(command, Output::MessagesToStderr);
  throw_if_interrupted();
  if (status < 0 || status == static_cast<int>(ExitStatus::Config)) {
    throw ConfigError(fmt::format(
        "{} run {}: {}", program, command[2],
        status < 0 ? "did not start, or was killed" : "refused it; its message is above"));
  }
  return read_run(directory);
}

}  // namespace gradsync::session
