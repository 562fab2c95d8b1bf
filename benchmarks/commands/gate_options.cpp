#include "benchmarks/commands/gate_options.h"

#include "benchmarks/commands/plan_options.h"
#include "harness/plan/cell.h"

namespace gradsync::cli {

void add_gate_options(CLI::App& command, arms::GateOptions& options) {
  add_plan_options(command, options.run);
  command.get_option("PLAN")->required(false);
  command.add_option("--out", options.run.out, "Directory for the results");
  command.add_flag("--force", options.run.force, "Replace the gate in --out");
  command.add_flag("--quiet", options.run.quiet, "Only errors on stderr");
  command.add_option("--baseline", options.baseline,
                     "What is known to be good: a build, its directory or its program; or, without "
                     "PLAN, a training command in quotes");
  command.add_option("--candidate", options.candidate,
                     "Build in question (this program), or the other training command");
  command.add_option("--python", options.python,
                     "The commands' interpreter, where they do not show it");
  command.add_option("--counts", options.counts,
                     "File that holds what a step of a training command communicates: gradsync "
                     "gate --counts FILE -- COMMAND...");
  command.add_flag("--update", options.update, "Write the file of --counts instead");
  command.add_option("--against", options.against,
                     "Results of a run to hold the candidate against, instead of a build");
  command.add_option("--gates", options.gates,
                     "Rows, thresholds and claims: a name in benchmarks/gates, or a file");
  command.add_option("--results", options.results, "Judge the claims of --gates by this run");
  command
      .add_option("--rows", options.rows,
                  "Only rows with these parameters, as in strategy=no_sync,topology=1x2")
      ->type_name("KEY=VALUE,...")
      ->expected(1)
      ->take_all();
  command.add_option("--margin", options.margin, "Slower by up to this passes (1%)");
  command.add_option("--smallest-effect", options.smallest_effect,
                     "Slower by this is seen, or the verdict is undecided (3%)");
  command.add_option(
      "--mean-smallest-effect", options.mean_smallest_effect,
      "The same of the mean step, which slow-downs that come and go make longer (4/3 "
      "of --smallest-effect: 4%)");
  command.add_option("--alpha", options.alpha, "Chance of any false alarm (1%)");
  command.add_option("--time-budget", options.time_budget,
                     "How long it may take, as in 10m (what the plan needs, which is announced)");
  command.add_flag("--counts-only", options.counts_only, "Compare counts and bytes, no times");
  command.add_option("--markdown,--summary", options.markdown,
                     "Also write the summary to this file, as Markdown for a comment");
  command.add_option("--html", options.html, "Also write a page to this file, for a browser");
  command.add_flag("--selftest", options.selftest,
                   "Measure the gate's own error rates: a build against itself, work added");
  command
      .add_option("--starts", options.selftest_options.starts,
                  "--selftest: fresh starts for each share of extra work (25)")
      ->check(CLI::Range(1, plan::kLargestCount));
  command
      .add_option("--extra-work", options.selftest_options.extra_work,
                  "--selftest: shares of work to add (0%,1%,2%,3%,5%,10%)")
      ->delimiter(',');
  command.add_option("--replay", options.replay,
                     "Decide again on the turns that a directory of --selftest holds");
  command.add_flag("--json", options.run.json, "Print gate.json instead of the table");
}

}  // namespace gradsync::cli
