// gradsync gate: did a change make training slower, synchronize more, or use more memory? Four
// questions, each a command of its own with the options that it knows.
#include "benchmarks/commands/commands.h"
#include "benchmarks/commands/gate_answers.h"
#include "benchmarks/commands/plan_options.h"
#include "harness/base/log.h"
#include "harness/coordinate/watched_group.h"
#include "harness/plan/cell.h"
#include "harness/session/interrupt.h"

namespace gradsync::cli {
namespace {

using arms::GateForm;
using arms::GateOptions;

ExitStatus run_gate(const GateOptions& options) {
  const arms::GateQuestion question = arms::read_gate_question(options);
  session::catch_interrupts();
  try {
    switch (question.kind) {
      case arms::GateKind::Counts:
        return hold_counts(question, directory_for(question));
      case arms::GateKind::SelfTest:
      case arms::GateKind::Replay:
        return print_error_rates(question);
      default:
        return compare(question);
    }
  } catch (const coordinate::Interrupted&) {
    log::error("interrupted: there is no verdict");
    return ExitStatus::Interrupted;
  }
}

void add_plan(CLI::App& command, GateOptions& options) {
  add_plan_options(command, options.run);
  command.get_option("PLAN")->required(false);
  command
      .add_option("--rows", options.rows,
                  "Only rows with these parameters, as in strategy=no_sync,topology=1x2")
      ->type_name("KEY=VALUE,...")
      ->expected(1)
      ->take_all();
}

void add_output(CLI::App& command, GateOptions& options) {
  command.add_option("--out", options.run.out, "Directory for the results");
  command.add_flag("--quiet", options.run.quiet, "Only errors on stderr");
  command.add_flag("--json", options.run.json, "Print JSON instead of the table");
}

void add_pages(CLI::App& command, GateOptions& options) {
  add_output(command, options);
  command.add_flag("--force", options.run.force, "Replace the gate in --out");
  command.add_option("--markdown,--summary", options.markdown,
                     "Also write the summary to this file, as Markdown for a comment");
  command.add_option("--html", options.html, "Also write a page to this file, for a browser");
}

void add_thresholds(CLI::App& command, GateOptions& options) {
  command.add_option("--margin", options.margin, "Slower by up to this passes (1%)");
  command.add_option("--smallest-effect", options.smallest_effect,
                     "Slower by this is seen, or the verdict is undecided (3%)");
  command.add_option("--mean-smallest-effect", options.mean_smallest_effect,
                     "The same for the mean step, which intermittent slow-downs make longer "
                     "(4/3 of --smallest-effect: 4%)");
  command.add_option("--alpha", options.alpha, "Probability of any false alarm (1%)");
}

void add_times(CLI::App& command, GateOptions& options) {
  add_thresholds(command, options);
  command.add_option("--time-budget", options.time_budget,
                     "How long it may take, as in 10m (what the rows need, which is announced)");
  command.add_flag("--counts-only", options.counts_only, "Compare counts and bytes, no times");
}

void add_python(CLI::App& command, GateOptions& options) {
  command.add_option("--python", options.python,
                     "Interpreter of the training command, where the command does not show it");
}

void add_builds(CLI::App& command, GateOptions& options) {
  add_plan(command, options);
  command
      .add_option("--baseline", options.baseline,
                  "Build that is known to be good: its directory or program")
      ->type_name("BUILD");
  command.add_option("--candidate", options.candidate, "Build in question (this program)")
      ->type_name("BUILD");
  command.add_option("--against", options.against,
                     "Results of a run to hold the candidate against, instead of a build");
  command.add_option("--gates", options.gates,
                     "Rows, thresholds and claims: a name in benchmarks/gates, or a file");
  command.add_option("--results", options.results, "Judge the claims of --gates by this run");
  add_times(command, options);
  command
      .add_option(
          "--form", options.length,
          "short: three minutes, times of four rows that stand for all, finds 5%; long: ten "
          "minutes, times of all rows, finds 3% (all rows, for as long as they need)")
      ->type_name("short|long");
  add_pages(command, options);
}

void add_commands(CLI::App& command, GateOptions& options) {
  command
      .add_option("--baseline", options.baseline,
                  "Training command that is known to be good, in quotes")
      ->type_name("COMMAND")
      ->required();
  command.add_option("--candidate", options.candidate, "Training command in question, in quotes")
      ->type_name("COMMAND")
      ->required();
  add_python(command, options);
  add_times(command, options);
  add_pages(command, options);
}

void add_counts(CLI::App& command, GateOptions& options) {
  const auto until =
      "End the command after this long, as in 5m: its steps until then are compared, its peak "
      "is not";
  command.footer(" -- COMMAND...");
  command
      .add_option("FILE", options.counts,
                  "Checked-in file of what a step of the training command communicates")
      ->required();
  command.add_flag("--update", options.update, "Write FILE instead");
  command.add_option(
      "--on", options.on,
      "Run the command on GPUs that are not there, as 8xh100 or 8x79GiB: counts, bytes "
      "and memory are real, values and times are not");
  command.add_option("--time-budget", options.time_budget, until);
  add_python(command, options);
  add_pages(command, options);
}

void add_selftest(CLI::App& command, GateOptions& options) {
  add_plan(command, options);
  command
      .add_option("--baseline", options.baseline, "Build whose rates are measured (this program)")
      ->type_name("BUILD");
  command
      .add_option("--starts", options.selftest_options.starts,
                  "Fresh starts for each share of extra work (25)")
      ->check(CLI::Range(1, plan::kLargestCount));
  command
      .add_option("--extra-work", options.selftest_options.extra_work,
                  "Shares of work to add (0%,1%,2%,3%,5%,10%)")
      ->type_name("PERCENT")
      ->delimiter(',');
  command.add_option("--replay", options.replay,
                     "Decide again on the turns that a directory of an earlier self-test holds");
  add_thresholds(command, options);
  add_output(command, options);
}

struct Question {
  const char* name;
  GateForm form;
  const char* about;
  void (*add_options)(CLI::App&, GateOptions&);
};

constexpr Question kQuestions[] = {
    {"counts", GateForm::Counts,
     "Does a training command communicate and hold what a checked-in file says?", add_counts},
    {"commands", GateForm::Commands, "Is a training command slower than another one?",
     add_commands},
    {"builds", GateForm::Builds,
     "Is a build of this program slower than another one, on the rows of a plan?", add_builds},
    {"selftest", GateForm::SelfTest, "How often is this gate right, on this machine?",
     add_selftest},
};

}  // namespace

void add_gate_command(CLI::App& app, ExitStatus& status, const std::vector<std::string>& job) {
  CLI::App* gate =
      app.add_subcommand("gate", "Is a build or a job slower, or does it synchronize or hold more?")
          ->group(kJobs)
          ->require_subcommand(1);
  for (const Question& question : kQuestions) {
    auto options = std::make_shared<GateOptions>();
    options->form = question.form;
    options->job = job;
    CLI::App* command = gate->add_subcommand(question.name, question.about);
    question.add_options(*command, *options);
    command->callback([options, &status] {
      if (options->run.quiet) log::configure(true);
      status = run_gate(*options);
    });
  }
}

}  // namespace gradsync::cli
