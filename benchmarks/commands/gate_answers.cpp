#include "benchmarks/commands/gate_answers.h"

#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "harness/arms/gates.h"
#include "harness/base/clock.h"
#include "harness/base/log.h"
#include "harness/base/program_files.h"
#include "harness/gate/page.h"
#include "harness/gate/traces.h"
#include "harness/plan/cell.h"
#include "harness/results/store.h"
#include "harness/session/plots.h"
#include "harness/session/session_start.h"
#include "harness/summary/build_result.h"

namespace gradsync::cli {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// Returns the candidate's turns as a run of its own, for claims about its rows.
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

// A self-test adds to the turns that are already there; any other file is in the way.
void prepare_for_turns(const std::string& directory) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (entry.path().filename().string().ends_with(gate::kTurnsSuffix)) return;
  }
  results::prepare_directory(directory, false, false);
}

}  // namespace

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

}  // namespace gradsync::cli
