// gradsync demo: a tour of a minute. A job that synchronizes too often, the verdict on it, the fix,
// and what the fix saved.
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <memory>

#include "benchmarks/commands/commands.h"
#include "harness/base/log.h"
#include "harness/base/program_files.h"
#include "harness/base/units.h"
#include "harness/coordinate/watched_group.h"
#include "harness/session/interrupt.h"
#include "harness/text/text_table.h"
#include "harness/text/text_width.h"
#include "harness/watch/hold/watched_job.h"
#include "harness/watch/hold/whole_job.h"
#include "harness/watch/inject/environment.h"
#include "harness/watch/judge/watched.h"
#include "harness/watch/tell/pages.h"

namespace gradsync::cli {
namespace {

constexpr const char* kJob = "benchmarks/demo/train.py";
constexpr const char* kFix = "--enclose-forward";
constexpr const char* kRanks = "2";
constexpr double kBudgetS = 300;  // ends a job that hangs; it takes seconds
constexpr int kLinesAround = 4;   // of the line to change

struct Tour {
  std::string python;
  std::string folder;  // for the jobs' output
};

// Returns what was seen of the job.   Errors: as run_whole_job; EnvironmentError if the job did not
// run to its end.
watch::Watched run_job(const Tour& tour, const std::vector<std::string>& arguments) {
  watch::WholeJob job;
  job.command = {tour.python,        "-m",   "torch.distributed.run",
                 "--nproc-per-node", kRanks, data_file(kJob)};
  job.command.insert(job.command.end(), arguments.begin(), arguments.end());
  job.python = tour.python;
  job.more = watch::own_port();
  job.log = tour.folder + "/output.log";
  job.budget_s = kBudgetS;
  const watch::SeenJob seen = watch::run_whole_job(job, session::throw_if_interrupted);
  if (!seen.failure.empty() || seen.was_ended || seen.steps == 0) {
    const std::string how = !seen.failure.empty() ? seen.failure
                            : seen.was_ended      ? "did not end"
                                                  : watch::why_no_step(seen);
    throw EnvironmentError(fmt::format("the job of the tour {}: {}", kJob, how),
                           "gradsync doctor says what this machine lacks");
  }
  return watch::summarize(seen.folder.ranks);
}

void say(const std::string& text) {
  std::cout << text << std::flush;
}

// Returns the lines of the job around the one to change, with their numbers.
std::string listing(int line) {
  std::ifstream file(data_file(kJob));
  std::string text;
  std::string content;
  for (int number = 1; std::getline(file, content); ++number) {
    if (number < line - kLinesAround || number > line + 1) continue;
    text += fmt::format("{}{:>4}  {}\n", number == line ? "->" : "  ", number, content);
  }
  return text;
}

std::int64_t bytes_of(const watch::TypicalStep& step) {
  return watch::total_bytes(step.collectives).value_or(0);
}

std::string step_seconds(const std::optional<double>& value) {
  return value ? fmt::format("{:.3f}", *value) : "-";
}

// Returns a table of what both jobs did in a step, and the difference. Counts are exact; times are
// those of this run.
std::string before_and_after(const watch::TypicalStep& before, const watch::TypicalStep& after) {
  text::TextTable table({{"per step", text::Align::Left}, {"before"}, {"after"}});
  table.add_row({"synchronizations", std::to_string(before.synchronized),
                 std::to_string(after.synchronized)});
  table.add_row({"collectives", std::to_string(watch::total_count(before.collectives)),
                 std::to_string(watch::total_count(after.collectives))});
  table.add_row({"bytes", format_bytes(static_cast<double>(bytes_of(before))),
                 format_bytes(static_cast<double>(bytes_of(after)))});
  table.add_row({"seconds", step_seconds(before.step_s), step_seconds(after.step_s)});
  return table.to_markdown();
}

std::string conclusion(const watch::TypicalStep& before, const watch::TypicalStep& after) {
  std::string text =
      fmt::format("One line moved: {} synchronizations and {} less per step, the same gradients.",
                  before.synchronized - after.synchronized,
                  format_bytes(static_cast<double>(bytes_of(before) - bytes_of(after))));
  if (before.step_s && after.step_s) {
    text += fmt::format(
        " A step took {:.3f} s instead of {:.3f} s (medians of {} and {} steps, "
        "one start each: an impression, not a measurement).",
        *after.step_s, *before.step_s, after.steps, before.steps);
  }
  return text::wrapped(text, 0, watch::kPageWidth);
}

// Returns the usual step. The job ran to its end, so there is one.
const watch::TypicalStep& step_of(const watch::Watched& watched) {
  if (!watched.typical) {
    throw EnvironmentError("the tour's job was not seen to step",
                           watched.verdicts.front().sentence);
  }
  return *watched.typical;
}

void guide(const Tour& tour) {
  say(
      fmt::format("1. A job that accumulates gradients, and calls no_sync in the wrong place\n\n"
                  "   gradsync watch -- torchrun --nproc-per-node {} train.py\n\n",
                  kRanks));
  const watch::Watched before = run_job(tour, {});
  say(watch::watch_page(before));
  const watch::Verdict& verdict = before.verdicts.front();
  if (verdict.change && verdict.change->line > 0) say("\n" + listing(verdict.change->line));
  say(
      fmt::format("\n2. The same job, forward enclosed as well\n\n"
                  "   gradsync watch -- torchrun --nproc-per-node {} train.py {}\n\n",
                  kRanks, kFix));
  const watch::Watched after = run_job(tour, {kFix});
  say(watch::watch_page(after));
  say("\n3. What it saved\n\n" + before_and_after(step_of(before), step_of(after)) + "\n" +
      conclusion(step_of(before), step_of(after)));
  say(fmt::format("\nThe job is {}\nNow yours: gradsync watch -- COMMAND\n", data_file(kJob)));
}

ExitStatus run_demo(const std::string& python) {
  session::catch_interrupts();
  const watch::EventFolder folder("");  // removed at the end
  try {
    guide({python, folder.path()});
  } catch (const coordinate::Interrupted&) {
    log::error("interrupted");
    return ExitStatus::Interrupted;
  }
  return ExitStatus::Ok;
}

}  // namespace

void add_demo_command(CLI::App& app, ExitStatus& status) {
  CLI::App* command =
      app.add_subcommand("demo", "A tour of a minute: an improper job, the verdict, the fix")
          ->group(kJobs);
  auto python = std::make_shared<std::string>("python3");
  command->add_option("--python", *python, "An interpreter with torch (python3)");
  command->callback([python, &status] { status = run_demo(*python); });
}

}  // namespace gradsync::cli
