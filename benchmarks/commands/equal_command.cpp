// gradsync equal: does a training job's gradient depend on how the batch is split?
#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <utility>

#include "benchmarks/commands/commands.h"
#include "harness/base/log.h"
#include "harness/results/store.h"
#include "harness/session/interrupt.h"
#include "harness/watch/hold/watched_job.h"
#include "harness/watch/hold/whole_job.h"
#include "harness/watch/inject/environment.h"
#include "harness/watch/judge/equal.h"
#include "harness/watch/tell/equal_report.h"

namespace gradsync::cli {
namespace {

using watch::Equality;
using watch::Split;

// Set in every process of the job: "RANKS MICRO_BATCHES MICRO_BATCH_SIZE".
constexpr const char* kSplitVariable = "GRADSYNC_SPLIT";
constexpr const char* kFirstStepAlone = "1000000000 1";  // as kAccountVariable has it
constexpr int kMost = 4096;

struct EqualOptions {
  std::vector<std::string> command;
  std::string python;
  std::string json;  // "": none is written
  std::string keep;  // "": nothing is kept
  int ranks = 2;
  int micro_batches = 2;
  int micro_batch_size = 1;
};

// The split that counts as correct comes first.
std::vector<Split> splits_of(const EqualOptions& options) {
  const int size = options.micro_batch_size;
  if (options.micro_batches == 1 && options.ranks > 1) {
    return {{1, 1, options.ranks * size}, {options.ranks, 1, size}};
  }
  if (options.micro_batches % 2 != 0) {
    throw ConfigError(
        fmt::format("--micro-batches: got {}, expected an even number: the third "
                    "split has half as many on twice as many ranks",
                    options.micro_batches));
  }
  return {{1, 1, options.ranks * options.micro_batches * size},
          {options.ranks, options.micro_batches, size},
          {2 * options.ranks, options.micro_batches / 2, size}};
}

std::string with_value(std::string word, const std::string& name, int value) {
  const std::string text = std::to_string(value);
  for (std::size_t at = word.find(name); at != std::string::npos;
       at = word.find(name, at + text.size())) {
    word.replace(at, name.size(), text);
  }
  return word;
}

std::vector<std::string> command_for(const Split& split, std::vector<std::string> command) {
  for (std::string& word : command) {
    for (const auto& [name, value] : {std::pair{"{ranks}", split.ranks},
                                      {"{micro_batches}", split.micro_batches},
                                      {"{micro_batch_size}", split.micro_batch_size}}) {
      word = with_value(std::move(word), name, value);
    }
  }
  return command;
}

// Runs the job up to its first step, split so.   Errors: as run_whole_job and first_step_of.
watch::FirstStep first_step(const EqualOptions& options, const Split& split,
                            const std::string& folder) {
  log::info(fmt::format("{} of {} samples ...", watch::split_text(split), split.micro_batch_size));
  watch::WholeJob job;
  job.command = command_for(split, options.command);
  job.python = options.python;
  job.more = watch::own_port();
  job.more.emplace_back(watch::kAccountVariable, kFirstStepAlone);
  job.more.emplace_back(kSplitVariable, fmt::format("{} {} {}", split.ranks, split.micro_batches,
                                                    split.micro_batch_size));
  job.log = fmt::format("{}/output_{}_{}.log", folder, split.ranks, split.micro_batches);
  job.steps = 1;
  const watch::SeenJob seen = watch::run_whole_job(job, session::throw_if_interrupted);
  if (!seen.failure.empty() || seen.steps == 0) {
    throw EnvironmentError(fmt::format("split into {}{}", watch::split_text(split),
                                       seen.failure.empty() ? ": " + watch::why_no_step(seen)
                                                            : ", the job " + seen.failure),
                           "--keep DIR keeps what it printed");
  }
  return watch::first_step_of(split, seen.accounts);
}

ExitStatus status_of(Equality equality) {
  switch (equality) {
    case Equality::Equal:
      return ExitStatus::Ok;
    case Equality::NotEqual:
      return ExitStatus::Regression;
    case Equality::Unknown:
      break;
  }
  return ExitStatus::Unfit;
}

ExitStatus run_splits(const EqualOptions& options) {
  const std::vector<Split> splits = splits_of(options);
  const watch::EventFolder folder(options.keep);
  const watch::FirstStep right = first_step(options, splits.front(), folder.path());
  watch::EqualReport report{options.command, splits.front(), {}};
  for (auto split = splits.begin() + 1; split != splits.end(); ++split) {
    const watch::FirstStep other = first_step(options, *split, folder.path());
    report.others.push_back({*split, watch::compare_first_steps(right, other)});
  }
  std::cout << watch::equal_page(report) << std::flush;
  if (!options.json.empty()) results::write_atomically(options.json, watch::equal_json(report));
  return status_of(watch::equality_of(report));
}

}  // namespace

void add_equal_command(CLI::App& app, ExitStatus& status, std::vector<std::string> job) {
  CLI::App* command =
      app.add_subcommand("equal", "Does a job's gradient depend on how the batch is split?")
          ->group(kJobs)
          ->footer(" -- COMMAND with {ranks}, {micro_batches} and {micro_batch_size}...");
  auto options = std::make_shared<EqualOptions>();
  options->command = std::move(job);
  command
      ->add_option("--ranks", options->ranks,
                   "Ranks of the second split; the third has twice as many")
      ->check(CLI::Range(1, kMost))
      ->capture_default_str();
  command
      ->add_option(
          "--micro-batches", options->micro_batches,
          "Micro-batches of each rank's step; the third split has half as many. 1: no third "
          "split, for a loss of a micro-batch as a whole")
      ->check(CLI::Range(1, kMost))
      ->capture_default_str();
  command
      ->add_option("--micro-batch-size", options->micro_batch_size,
                   "Samples per micro-batch; the first split puts a whole step into one")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--json", options->json, "Write what was found into this file");
  command->add_option("--python", options->python,
                      "The job's interpreter, where COMMAND does not show it");
  command->add_option("--keep", options->keep, "Keep the output of each run in this folder");
  command->callback([options, &status] {
    if (options->command.empty()) {
      throw ConfigError(
          "equal: COMMAND is missing: gradsync equal [options] -- torchrun --nproc-per-node "
          "{ranks} train.py ...");
    }
    session::catch_interrupts();
    status = run_splits(*options);
  });
}

}  // namespace gradsync::cli
