#include "benchmarks/commands/predict_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <optional>

#include "harness/base/log.h"
#include "harness/base/words.h"
#include "harness/fit/job_fit.h"
#include "harness/fit/levers.h"
#include "harness/fit/tell.h"
#include "harness/paper/standins.h"
#include "harness/plan/cell.h"
#include "harness/session/interrupt.h"
#include "harness/watch/hold/held_job.h"
#include "harness/watch/hold/turns.h"

namespace gradsync::cli {
namespace {

fit::Question question_of(const JobMemoryOptions& options) {
  if (options.on.empty()) {
    throw ConfigError(
        "predict memory: --on is missing, the GPUs that the COMMAND is to have, as in --on 8xh100");
  }
  paper::require_gpus(options.on);
  fit::Question question;
  question.command = options.command;
  question.python = options.python;
  question.on = options.on;
  question.world = options.world;
  question.steps = options.steps;
  question.keep = options.keep;
  question.step_deadline_s = watch::JobDeadlines{}.step_s;
  return question;
}

// A job that runs out of memory is an answer.
bool is_answer(const fit::JobFit& fit) {
  return fit.failure.empty() || std::ranges::any_of(fit.ranks, [](const fit::RankFit& rank) {
           return rank.outcome == fit::Outcome::OutOfMemory;
         });
}

std::vector<fit::Lever> levers_of(const JobMemoryOptions& options) {
  std::vector<fit::Lever> levers;
  for (const std::string& text : options.levers) levers.push_back(fit::read_lever(text));
  return levers;
}

fit::LeverFit try_lever(fit::Question question, const fit::Lever& lever) {
  question.command = fit::with_words(question.command, lever.words);
  question.keep = "";
  question.tries_settings = false;
  log::info(fmt::format("{}: {} ...", lever.name, joined_words(lever.words)));
  fit::LeverFit tried{lever.name, std::nullopt, ""};
  try {
    tried.fit = fit::find_fit(question, session::throw_if_interrupted);
    if (!is_answer(*tried.fit)) {
      tried.failure = tried.fit->failure;
      tried.fit.reset();
    }
  } catch (const EnvironmentError& error) {
    tried.failure = error.what();
  }
  return tried;
}

void print(const fit::JobFit& fit, const std::vector<fit::LeverFit>& tried, bool as_json) {
  if (!as_json) {
    std::cout << fit::fit_page(fit);
    if (!tried.empty()) std::cout << "\n" << fit::levers_page(fit, tried);
    return;
  }
  std::cout << fit::fit_json(fit, tried).dump(1) << "\n";
}

}  // namespace

void add_job_options(CLI::App& command, JobMemoryOptions& options) {
  command.footer(" -- COMMAND...");
  command.add_option(
      "--on", options.on,
      "The GPUs that a COMMAND has, or a model with --set device=paper: 8xh100 or 8x79GiB");
  command
      .add_option("--world", options.world,
                  "With a COMMAND that starts one process, rank 0: ranks of the whole job")
      ->check(CLI::Range(1, plan::kLargestCount));
  command
      .add_option("--steps", options.steps,
                  "With a COMMAND: end it after this many optimizer steps")
      ->check(CLI::Range(1, static_cast<int>(watch::kKeptSteps)))
      ->capture_default_str();
  command
      .add_option("--lever", options.levers,
                  "With a COMMAND that has the word {}: run it once more with these flags in that "
                  "place, and print what they save, NAME=FLAGS (repeatable)")
      ->allow_extra_args(false);
  command.add_option("--keep", options.keep,
                     "With a COMMAND: keep its recordings and its output in this folder");
  command.add_option("--python", options.python,
                     "The job's interpreter, where COMMAND does not show it");
}

void refuse_model_options(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    const bool is_known =
        name == "--json" || std::ranges::find(kOptionsOfJob, name) != kOptionsOfJob.end();
    if (option->count() == 0 || is_known) continue;
    throw ConfigError(
        fmt::format("predict memory: got {} and a COMMAND, expected one of the two: it is for the "
                    "suite's models",
                    name));
  }
}

ExitStatus predict_memory_of_job(const JobMemoryOptions& options) {
  const fit::Question question = question_of(options);
  const std::vector<fit::Lever> levers = levers_of(options);
  session::catch_interrupts();
  fit::Question as_it_is = question;
  if (!levers.empty()) as_it_is.command = fit::with_words(question.command, {});
  const fit::JobFit fit = fit::find_fit(as_it_is, session::throw_if_interrupted);
  if (!is_answer(fit)) {
    log::error("the job " + fit.failure);
    return ExitStatus::Failed;
  }
  std::vector<fit::LeverFit> tried;
  for (const fit::Lever& lever : levers) tried.push_back(try_lever(question, lever));
  print(fit, tried, options.as_json);
  return ExitStatus::Ok;
}

}  // namespace gradsync::cli
