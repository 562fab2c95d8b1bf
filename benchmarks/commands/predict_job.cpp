#include "benchmarks/commands/predict_job.h"

#include <algorithm>
#include <iostream>

#include "harness/base/log.h"
#include "harness/coordinate/watched_group.h"
#include "harness/fit/job_fit.h"
#include "harness/fit/tell.h"
#include "harness/paper/standins.h"
#include "harness/session/interrupt.h"
#include "harness/watch/hold/held_job.h"

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

// A job that ends for want of memory is an answer.
bool is_answer(const fit::JobFit& fit) {
  return fit.failure.empty() || std::ranges::any_of(fit.ranks, [](const fit::RankFit& rank) {
           return rank.outcome == fit::Outcome::OutOfMemory;
         });
}

}  // namespace

ExitStatus predict_memory_of_job(const JobMemoryOptions& options) {
  session::catch_interrupts();
  const fit::JobFit fit = fit::find_fit(question_of(options), [] {
    if (session::interrupt_flag()) throw coordinate::Interrupted();
  });
  std::cout << (options.as_json ? fit::fit_json(fit).dump(1) + "\n" : fit::fit_page(fit));
  if (is_answer(fit)) return ExitStatus::Ok;
  log::error("the job " + fit.failure);
  return ExitStatus::Failed;
}

}  // namespace gradsync::cli
