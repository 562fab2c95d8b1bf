// gradsync search: the largest or smallest value of an axis with which a cell fits in memory, or
// the fastest of the cells that fit.
#include <fmt/format.h>

#include <functional>
#include <iostream>
#include <optional>

#include "benchmarks/commands/commands.h"
#include "benchmarks/commands/plan_options.h"
#include "benchmarks/commands/search_of_job.h"
#include "harness/base/log.h"
#include "harness/report/search_page.h"
#include "harness/session/outside_launcher.h"
#include "harness/session/search_cells.h"
#include "harness/session/search_outcome.h"
#include "harness/session/session_start.h"

namespace gradsync::cli {
namespace {

using nlohmann::json;

// Text that a program reads, and a page that people read: both are kept, one is printed.
void print(const std::string& directory, const char* file, const json& document,
           const std::string& page, bool as_json) {
  const std::string text = document.dump(1) + "\n";
  results::write_atomically(directory + "/" + file, text);
  results::write_atomically(directory + "/table.md", page);
  std::cout << (as_json ? text : page) << std::flush;
}

ExitStatus status_of(const summary::Search& search) {
  return session::exit_status_of(search.cells);
}
ExitStatus status_of(summary::Race& race) {
  return session::exit_status_of(race);
}

void print(const summary::Search& search, const std::string& directory, bool as_json) {
  print_search(search, directory, as_json);
}
void print(const summary::Race& race, const std::string& directory, bool as_json) {
  print(directory, results::kFastestFile, json(race), report::race_markdown(race, directory + "/"),
        as_json);
}

// `work` puts into `found` what it finds, as far as it comes.
// `agents`: those of an outside launcher; null: this process starts the ranks itself.
template <typename Found>
ExitStatus search_session(const session::RunOptions& options, const plan::Plan& plan,
                          launch::Agents* agents, Found found,
                          const std::function<void(session::Session&, Found&)>& work) {
  const auto session = session::start_session(options, plan, agents);
  const bool ended = session::run_to_end(*session, [&] { work(*session, found); });
  const ExitStatus status = ended ? status_of(found) : ExitStatus::Interrupted;
  found.exit_status = static_cast<int>(status);
  session->close(status);
  print(found, session->directory(), options.json);
  if (!ended) {
    log::error(fmt::format("interrupted; finished trials are in {}", session->directory()));
  }
  return status;
}

ExitStatus find_edges(const session::RunOptions& options, const session::SearchQuestion& question,
                      const plan::Plan& plan, launch::Agents* agents) {
  summary::Search search;
  search.plan = plan.name;
  search.wanted = question.wanted;
  search.axis = question.axis;
  search.checks = question.checks;
  return search_session<summary::Search>(
      options, plan, agents, search, [&](session::Session& session, summary::Search& found) {
        session::search_cells(session, plan, question, found.cells);
      });
}

ExitStatus find_fastest(const session::RunOptions& options, const plan::Plan& plan,
                        launch::Agents* agents) {
  return search_session<summary::Race>(options, plan, agents, {},
                                       [&](session::Session& session, summary::Race& found) {
                                         session::find_fastest(session, plan, found);
                                       });
}

ExitStatus search(session::SearchOptions options, const JobSearchOptions& of_job) {
  require_no_options(of_job);
  session::check_directory_flags(options.run);
  const auto question =
      options.fastest ? std::nullopt : std::optional(session::read_question(options));
  const session::RunOptions as_asked = options.run;
  const auto place = session::place_of(options.run);
  if (place) options.run = session::with_topology_of(*place, options.run);
  const plan::Plan plan =
      question ? session::plan_of(*question, options.run) : session::plan_of_race(options);
  return session::lead_or_follow(place, as_asked, plan, [&](launch::Agents* agents) {
    return question ? find_edges(as_asked, *question, plan, agents)
                    : find_fastest(as_asked, plan, agents);
  });
}

}  // namespace

void print_search(const summary::Search& search, const std::string& directory, bool as_json) {
  print(directory, results::kSearchFile, json(search),
        report::search_markdown(search, directory + "/"), as_json);
}

void add_search_command(CLI::App& app, ExitStatus& status, const std::vector<std::string>& job) {
  constexpr int kMostChecks = 1000;
  auto options = std::make_shared<session::SearchOptions>();
  auto of_job = std::make_shared<JobSearchOptions>();
  of_job->command = job;
  CLI::App* command =
      app.add_subcommand("search",
                         "Find the largest value, or the fastest way, that fits in memory")
          ->group(kRuns)
          ->footer(" [-- COMMAND with {}...]");
  add_plan_options(*command, options->run);
  if (!job.empty()) command->get_option("PLAN")->required(false);
  command->get_option("--on")->description(
      "GPUs that are not there, as 8xh100 or 8x79GiB: what fits on them, with a COMMAND or with "
      "--device paper");
  add_session_options(*command, options->run);
  command->add_option("--largest", options->largest,
                      "accumulation_steps, micro_batch_size or sequence_length; with a COMMAND the "
                      "name of what {} stands for");
  command->add_option("--smallest", options->smallest, "memory_budget_bytes");
  command->add_flag("--fastest", options->fastest,
                    "The fastest of the plan's cells that fit: cells that cannot fit do not run, "
                    "slower ones stop early");
  command->add_option("--from", options->from, "Smallest value to try (1)");
  command->add_option("--to", options->to,
                      "Largest value to try; for a budget: twice what a run without one holds");
  command
      ->add_option("--checks", options->checks,
                   "Values to try on each side of the edge, to see whether they agree (2)")
      ->check(CLI::Range(0, kMostChecks));
  command->add_option(
      "--budget", of_job->budget,
      "With a COMMAND: memory for the tensors of each rank, as in 2GiB; may be left "
      "out with --on");
  command->add_option("--python", of_job->python,
                      "The job's interpreter, where COMMAND does not show it");
  command->add_option("--step-timeout", of_job->step_timeout,
                      "With a COMMAND: end it when it makes no step for this long (30m)");
  command->add_flag("--json", options->run.json, "Print search.json instead of the table");
  command->callback([options, of_job, &status] {
    if (options->run.quiet) log::configure(true);
    if (!of_job->command.empty())
      of_job->on = take_override(options->run.overrides, "on").value_or("");
    status = of_job->command.empty() ? search(*options, *of_job) : search_of_job(*options, *of_job);
  });
}

}  // namespace gradsync::cli
