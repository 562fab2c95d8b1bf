// gradsync gate: did a change make training slower, synchronize more, or use more memory?
#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "benchmarks/commands/commands.h"
#include "benchmarks/commands/gate_counts.h"
#include "benchmarks/commands/plan_options.h"
#include "harness/arms/gate_question.h"
#include "harness/arms/gates.h"
#include "harness/base/clock.h"
#include "harness/base/log.h"
#include "harness/base/program_files.h"
#include "harness/gate/page.h"
#include "harness/gate/traces.h"
#include "harness/plan/cell.h"
#include "harness/results/store.h"
#include "harness/session/interrupt.h"
#include "harness/session/plots.h"
#include "harness/session/session_start.h"
#include "harness/summary/build_result.h"

namespace gradsync::cli {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

std::string directory_for(const arms::GateQuestion& question) {
  const arms::GateOptions& options = question.options;
  if (!options.run.out.empty()) return options.run.out;
  const std::string name = fs::path(!options.counts.empty()    ? options.counts
                                    : options.run.plan.empty() ? options.gates
                                                               : options.run.plan)
                               .stem()
                               .string();
  return default_result_folder(
      fmt::format("gate_{}{}{}", name, name.empty() ? "" : "_", utc_timestamp(true)));
}

// The candidate's turns as a run of its own, for claims about its rows.
summary::FinishedRun run_of(const arms::GateQuestion& question,
                            const arms::GateFindings& findings) {
  const plan::Plan plan = session::checked_plan(question.options.run);
  summary::FinishedRun run{
      .directory = findings.report.candidate.name, .result = {}, .trials = findings.candidate};
  run.result = summary::build_result(findings.report.candidate.context, plan.source, run.trials);
  return run;
}

void store_turns(arms::GateFindings& findings, const std::string& directory) {
  gate::round_for_storage(findings.turns);
  results::write_atomically(directory + "/" + results::kTurnsFile,
                            gate::to_json(findings.turns).dump() + "\n");
}

gate::GateReport gate_between_builds(const arms::GateQuestion& question,
                                     const std::string& directory) {
  session::warn_about_this_host(session::checked_plan(question.options.run));
  arms::GateFindings findings = arms::compare_builds(question);
  if (arms::has_claims(question))
    arms::add_claims(findings.report, question, run_of(question, findings));
  store_turns(findings, directory);
  return findings.report;
}

gate::GateReport gate_between_jobs(const arms::GateQuestion& question,
                                   const std::string& directory) {
  session::warn_about_this_host(plan::Plan{});
  arms::GateFindings findings = arms::compare_jobs(question, directory);
  store_turns(findings, directory);
  return findings.report;
}

gate::GateReport answer(const arms::GateQuestion& question, const std::string& directory) {
  switch (question.kind) {
    case arms::GateKind::Builds:
      return gate_between_builds(question, directory);
    case arms::GateKind::Jobs:
      return gate_between_jobs(question, directory);
    case arms::GateKind::Against:
      return arms::compare_with_stored(question, directory);
    default:
      break;
  }
  return arms::judge_claims(question, directory);
}

void warn_of_too_few_starts(const gate::ErrorRates& rates) {
  const std::size_t needed = gate::starts_per_gate(rates.settings);
  for (const gate::Replay& replay : rates.replays) {
    if (!replay.gates.empty()) continue;
    const bool is_relabelled = replay.composition == gate::Composition::Relabelled;
    log::warn(fmt::format(
        "{:g} % of extra work: too few starts for a gate, which takes {} of one "
        "self-test{}",
        100 * replay.extra_work, needed, is_relabelled ? "" : ", and as many without extra work"));
  }
}

// A self-test adds to the turns that lie there; anything else is in the way.
void prepare_for_turns(const std::string& directory) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (entry.path().filename().string().ends_with(gate::kTurnsSuffix)) return;
  }
  results::prepare_directory(directory, false, false);
}

// Prints the rates, and keeps those that were measured beside their turns.
ExitStatus print_error_rates(const arms::GateQuestion& question) {
  const arms::GateOptions& options = question.options;
  gate::ErrorRates rates;
  if (question.kind == arms::GateKind::Replay) {
    rates = gate::replay_folder(options.replay, question.settings);
  } else {
    const std::string directory = directory_for(question);
    prepare_for_turns(directory);
    session::warn_about_this_host(session::checked_plan(options.run));
    rates = arms::measure_error_rates(question, directory);
    results::write_atomically(directory + "/" + gate::kErrorRatesFile,
                              gate::to_json(rates).dump(1) + "\n");
    session::make_plots("power_curve.py", directory + "/" + gate::kErrorRatesFile);
    log::info("Raw: " + directory + "/");
  }
  warn_of_too_few_starts(rates);
  std::cout << (options.run.json ? gate::to_json(rates).dump(1) + "\n"
                                 : gate::error_rate_tables(rates))
            << std::flush;
  return ExitStatus::Ok;
}

ExitStatus compare(const arms::GateQuestion& question) {
  const arms::GateOptions& options = question.options;
  const std::string directory = directory_for(question);
  results::prepare_directory(directory, false, options.run.force);
  const gate::GateReport report = answer(question, directory);
  const json gate = gate::to_json(report);
  const std::string summary = gate::gate_markdown(report);
  results::write_atomically(directory + "/" + results::kGateFile, gate.dump(1) + "\n");
  results::write_atomically(directory + "/table.md", summary);
  if (!options.markdown.empty()) results::write_atomically(options.markdown, summary);
  if (!options.html.empty()) results::write_atomically(options.html, gate::gate_html(report));
  session::make_plots("forest.py", directory + "/" + results::kGateFile);
  std::cout << (options.run.json ? gate.dump(1) + "\n" : gate::gate_text(report)) << std::flush;
  log::info("Raw: " + directory + "/");
  return gate::exit_status_of(gate::verdict_of(report));
}

ExitStatus run_gate(const arms::GateOptions& options) {
  const arms::GateQuestion question = arms::read_gate_question(options);
  session::catch_interrupts();
  try {
    if (question.kind == arms::GateKind::Counts) {
      return hold_counts(question, directory_for(question));
    }
    const bool about_itself =
        question.kind == arms::GateKind::SelfTest || question.kind == arms::GateKind::Replay;
    return about_itself ? print_error_rates(question) : compare(question);
  } catch (const coordinate::Interrupted&) {
    log::error("interrupted: there is no verdict");
    return ExitStatus::Interrupted;
  }
}

// Registers PLAN and the options of a gate. `options` must outlive `command`.
void add_gate_options(CLI::App& command, arms::GateOptions& options) {
  add_plan_options(command, options.run);
  command.get_option("PLAN")->required(false);
  command.get_option("--on")->description(
      "With --counts: run the command on GPUs that are not there, as 8xh100 or 8x79GiB: counts, "
      "bytes and memory are real, values and times are not");
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

}  // namespace

void add_gate_command(CLI::App& app, ExitStatus& status, std::vector<std::string> job) {
  auto options = std::make_shared<arms::GateOptions>();
  options->job = std::move(job);
  CLI::App* command =
      app.add_subcommand("gate", "Is a build or a job slower, or does it synchronize or hold more?")
          ->group(kJobs)
          ->footer(" [-- COMMAND...]");
  add_gate_options(*command, *options);
  command->callback([options, &status] {
    if (options->run.quiet) log::configure(true);
    if (!options->job.empty())
      options->on = take_override(options->run.overrides, "on").value_or("");
    status = run_gate(*options);
  });
}

}  // namespace gradsync::cli
