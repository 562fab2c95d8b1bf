// gradsync equal: is a training job's gradient the same however its samples are split?
#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <utility>

#include "benchmarks/commands/commands.h"
#include "harness/base/log.h"
#include "harness/coordinate/watched_group.h"
#include "harness/session/interrupt.h"
#include "harness/text/text_table.h"
#include "harness/text/text_width.h"
#include "harness/watch/account/equal.h"
#include "harness/watch/environment.h"
#include "harness/watch/held/whole_job.h"
#include "harness/watch/watched.h"
#include "harness/watch/watched_job.h"

namespace gradsync::cli {
namespace {

using text::TextTable;
using watch::EqualKind;
using watch::EqualVerdict;
using watch::Split;

// In every process of the job: "RANKS MICRO_BATCHES MICRO_BATCH_SIZE".
constexpr const char* kSplitVariable = "GRADSYNC_SPLIT";
constexpr const char* kFirstStepAlone = "1000000000 1";  // as kAccountVariable has it
constexpr int kMost = 4096;

struct EqualOptions {
  std::vector<std::string> command;
  std::string python;
  std::string keep;  // "": nothing is kept
  int ranks = 2;
  int micro_batches = 2;
  int micro_batch_size = 1;
};

// The one that is taken for right comes first.
std::vector<Split> splits_of(const EqualOptions& options) {
  if (options.micro_batches % 2 != 0) {
    throw ConfigError(
        fmt::format("--micro-batches: got {}, expected an even number: the third "
                    "split has half as many on twice as many ranks",
                    options.micro_batches));
  }
  const int size = options.micro_batch_size;
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
  const watch::SeenJob seen = watch::run_whole_job(job, [] {
    if (session::interrupt_flag()) throw coordinate::Interrupted();
  });
  if (!seen.failure.empty() || seen.steps == 0) {
    throw EnvironmentError(
        fmt::format("split into {}, the job {}", watch::split_text(split),
                    seen.failure.empty() ? watch::why_no_step(seen) : seen.failure),
        "--keep DIR keeps what it printed");
  }
  return watch::first_step_of(split, seen.accounts);
}

std::vector<std::string> row(const Split& split, const std::string& verdict) {
  return {std::to_string(split.ranks), std::to_string(split.micro_batches),
          std::to_string(split.micro_batch_size), verdict};
}

ExitStatus status_of(const std::vector<EqualVerdict>& verdicts) {
  ExitStatus status = ExitStatus::Ok;
  for (const EqualVerdict& verdict : verdicts) {
    if (verdict.kind == EqualKind::Equal) continue;
    if (!watch::is_unequal(verdict.kind)) return ExitStatus::Unfit;
    status = ExitStatus::Regression;
  }
  return status;
}

// What a table has room for.
std::string in_short(const EqualVerdict& verdict) {
  switch (verdict.kind) {
    case EqualKind::OtherWeights:
      return "the same samples count otherwise";
    case EqualKind::OtherSamples:
      return "another gradient";
    case EqualKind::OtherStart:
      return "of other parameters";
    case EqualKind::Equal:
    case EqualKind::Factor:
      break;
  }
  return verdict.sentence;
}

std::string reasons(const std::vector<Split>& splits, const std::vector<EqualVerdict>& verdicts) {
  std::string said;
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    const EqualVerdict& verdict = verdicts[i];
    if (verdict.kind == EqualKind::Equal) continue;
    said += text::wrapped(fmt::format("{}: {}", watch::split_text(splits[i + 1]), verdict.sentence),
                          0, watch::kPageWidth);
    if (!verdict.why.empty()) said += text::wrapped("why: " + verdict.why, 2, watch::kPageWidth);
  }
  return said;
}

const char* conclusion(ExitStatus status) {
  if (status == ExitStatus::Ok) return "EQUAL: the gradient is the same however it is split";
  if (status == ExitStatus::Regression) return "NOT EQUAL: the gradient depends on the split";
  return "UNKNOWN: what was split differs in something else";
}

ExitStatus run_splits(const EqualOptions& options) {
  const std::vector<Split> splits = splits_of(options);
  const watch::EventFolder folder(options.keep);
  const watch::FirstStep right = first_step(options, splits.front(), folder.path());
  TextTable table({{"ranks"},
                   {"micro-batches"},
                   {"samples of each"},
                   {"gradient of the first step", text::Align::Left}});
  table.add_row(row(splits.front(), "taken for right"));
  std::vector<EqualVerdict> verdicts;
  for (auto split = splits.begin() + 1; split != splits.end(); ++split) {
    verdicts.push_back(
        watch::compare_first_steps(right, first_step(options, *split, folder.path())));
    table.add_row(row(*split, in_short(verdicts.back())));
  }
  const ExitStatus status = status_of(verdicts);
  std::cout << table.to_markdown() << "\n"
            << conclusion(status) << "\n"
            << reasons(splits, verdicts) << std::flush;
  return status;
}

}  // namespace

void add_equal_command(CLI::App& app, ExitStatus& status, std::vector<std::string> job) {
  CLI::App* command =
      app.add_subcommand("equal", "Is a job's gradient the same however its samples are split?")
          ->group(kJobs)
          ->footer(" -- COMMAND with {ranks}, {micro_batches} and {micro_batch_size}...");
  auto options = std::make_shared<EqualOptions>();
  options->command = std::move(job);
  command->add_option("--ranks", options->ranks, "Of the second split; the third has twice as many")
      ->check(CLI::Range(1, kMost))
      ->capture_default_str();
  command
      ->add_option("--micro-batches", options->micro_batches,
                   "Of each rank's step; the third split has half as many")
      ->check(CLI::Range(2, kMost))
      ->capture_default_str();
  command
      ->add_option("--micro-batch-size", options->micro_batch_size,
                   "Samples of a micro-batch; the first split has all of a step in one")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--python", options->python,
                      "The job's interpreter, where COMMAND does not show it");
  command->add_option("--keep", options->keep, "Keep there what each run printed");
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
