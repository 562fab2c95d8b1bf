#include "benchmarks/commands/search_of_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "harness/arms/search_job.h"
#include "harness/base/clock.h"
#include "harness/base/log.h"
#include "harness/base/program_files.h"
#include "harness/base/units.h"
#include "harness/coordinate/watched_group.h"
#include "harness/paper/standins.h"
#include "harness/results/store.h"
#include "harness/session/interrupt.h"
#include "harness/session/search_outcome.h"
#include "harness/watch/hold/held_job.h"
#include "harness/watch/hold/turns.h"

namespace gradsync::cli {
namespace {

constexpr const char* kPlan = "job";  // what search.json calls a command's
constexpr int kSteps = 4;  // the second arranges DDP's buckets, the third is as all that follow
constexpr const char* kStepsKey = "steps=";

std::int64_t read_integer(const std::string& flag, const std::string& text) {
  std::size_t end = 0;
  std::int64_t value = 0;
  try {
    value = std::stoll(text, &end);
  } catch (const std::logic_error&) {
    end = 0;
  }
  if (end == 0 || end != text.size() || value < 1) {
    throw ConfigError(fmt::format("{}: got {}, expected an integer of at least 1", flag, text));
  }
  return value;
}

template <typename Read>
auto read_with_units(const char* flag, const std::string& text, Read read) {
  try {
    return read(text);
  } catch (const std::invalid_argument& error) {
    throw ConfigError(fmt::format("{}: got {}, expected {}", flag, text, error.what()));
  }
}

void check_words(const session::SearchOptions& options, const JobSearchOptions& job) {
  if (!options.run.plan.empty()) {
    throw ConfigError(fmt::format("search: got the plan {} and a COMMAND, expected one of the two",
                                  options.run.plan));
  }
  if (options.largest.empty() || !options.smallest.empty() || options.fastest) {
    throw ConfigError(
        "search: expected --largest NAME for a COMMAND, as in --largest "
        "accumulation_steps; `gradsync watch` says how little it needs");
  }
  const bool has_place = std::ranges::any_of(job.command, [](const std::string& word) {
    return word.find(arms::kPlaceOfValue) != std::string::npos;
  });
  if (!has_place) {
    throw ConfigError(fmt::format("search: got a COMMAND without {}, expected it where {} stands",
                                  arms::kPlaceOfValue, options.largest));
  }
  if (!job.on.empty()) paper::require_gpus(job.on);
  if (job.budget.empty() && job.on.empty()) {
    throw ConfigError(
        "search: --budget is missing, the memory for the tensors of a rank, as in 2GiB; or --on, "
        "GPUs with that much memory, as in 8xh100");
  }
}

// --steps is a plan's override.
int steps_of(const std::vector<std::string>& overrides) {
  std::int64_t steps = kSteps;
  for (const std::string& text : overrides) {
    if (!text.starts_with(kStepsKey)) {
      throw ConfigError(fmt::format("--set {}: a COMMAND has no fields of a plan", text));
    }
    steps = read_integer("--steps", text.substr(std::string(kStepsKey).size()));
  }
  constexpr auto kMost = static_cast<std::int64_t>(watch::kKeptSteps);
  if (steps > kMost) {
    throw ConfigError(fmt::format("--steps: got {}, expected at most {}", steps, kMost));
  }
  return static_cast<int>(steps);
}

arms::JobSearch question_of(const session::SearchOptions& options, const JobSearchOptions& job) {
  check_words(options, job);
  arms::JobSearch search;
  search.command = job.command;
  search.python = job.python;
  search.axis = options.largest;
  search.ends.checks = options.checks;
  if (!options.from.empty()) search.ends.from = read_integer("--from", options.from);
  if (options.to.empty()) {
    throw ConfigError(fmt::format(
        "search: --to is missing, expected the largest {} to try, as in --to 64", search.axis));
  }
  search.ends.to = read_integer("--to", options.to);
  if (search.ends.to <= search.ends.from) {
    throw ConfigError(fmt::format("--to: got {}, expected more than --from, which is {}",
                                  search.ends.to, search.ends.from));
  }
  search.on = job.on;
  if (!job.budget.empty()) {
    search.budget_bytes = read_with_units("--budget", job.budget, parse_size_bytes);
  }
  search.steps = steps_of(options.run.overrides);
  search.step_deadline_s =
      job.step_timeout.empty()
          ? watch::JobDeadlines{}.step_s
          : read_with_units("--step-timeout", job.step_timeout, parse_duration_s);
  return search;
}

}  // namespace

void require_no_options(const JobSearchOptions& options) {
  for (const auto& [flag, text] : {std::pair{"--budget", options.budget},
                                   {"--python", options.python},
                                   {"--step-timeout", options.step_timeout}}) {
    if (text.empty()) continue;
    throw ConfigError(
        fmt::format("{} needs a COMMAND: gradsync search --largest NAME --to N "
                    "--budget 2GiB -- COMMAND with {{}}; a plan has "
                    "memory_budget_bytes",
                    flag));
  }
}

ExitStatus search_of_job(const session::SearchOptions& options, const JobSearchOptions& job) {
  arms::JobSearch question = question_of(options, job);
  question.directory = options.run.out.empty()
                           ? default_result_folder(fmt::format("search_{}", utc_timestamp(true)))
                           : options.run.out;
  results::prepare_directory(question.directory, false, options.run.force);
  session::catch_interrupts();
  summary::Search search;
  search.plan = kPlan;
  search.axis = question.axis;
  search.checks = question.ends.checks;
  ExitStatus status = ExitStatus::Interrupted;
  try {
    arms::search_job(question, search.cells);
    status = session::exit_status_of(search.cells);
  } catch (const coordinate::Interrupted&) {
    log::error("interrupted: the edge was not found");
  }
  search.exit_status = static_cast<int>(status);
  print_search(search, question.directory, options.run.json);
  return status;
}

}  // namespace gradsync::cli
