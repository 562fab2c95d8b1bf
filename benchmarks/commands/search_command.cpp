// gradsync search: the largest or smallest value of an axis with which a cell fits in memory.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "benchmarks/commands/commands.h"
#include "benchmarks/commands/plan_options.h"
#include "harness/base/log.h"
#include "harness/report/search_page.h"
#include "harness/session/exit_status.h"
#include "harness/session/outside_launcher.h"
#include "harness/session/search_cells.h"
#include "harness/session/session_start.h"

namespace gradsync::cli {
namespace {

using nlohmann::json;
using plan::Edge;
using summary::SearchedCell;

// A cell whose search ended in a failure, or in an answer that contradicts itself.
bool went_wrong(const SearchedCell& cell) {
  if (cell.outcome == Edge::Outcome::NotMonotone) return true;
  return cell.outcome == Edge::Outcome::Stopped &&
         cell.probes.back().status != results::Status::Skipped;
}

ExitStatus exit_status_of(const std::vector<SearchedCell>& cells) {
  if (std::ranges::any_of(cells, went_wrong)) return ExitStatus::Failed;
  const bool answered = std::ranges::any_of(cells, [](const SearchedCell& cell) {
    return cell.outcome == Edge::Outcome::Found || cell.outcome == Edge::Outcome::AllFit;
  });
  return answered ? ExitStatus::Ok : ExitStatus::Unfit;
}

// `agents`: those of an outside launcher; null: this process starts the ranks itself.
ExitStatus search_session(const session::RunOptions& options,
                          const session::SearchQuestion& question, const plan::Plan& plan,
                          launch::Agents* agents) {
  const auto session = session::start_session(options, plan, agents);
  summary::Search search;
  search.plan = plan.name;
  search.wanted = question.wanted;
  search.axis = question.axis;
  search.checks = question.checks;
  const bool ended = session::run_to_end(
      *session, [&] { session::search_cells(*session, plan, question, search.cells); });
  const ExitStatus status = ended ? exit_status_of(search.cells) : ExitStatus::Interrupted;
  search.exit_status = static_cast<int>(status);
  session->close(status);
  const std::string page = report::search_markdown(search, session->directory() + "/");
  const std::string text = json(search).dump(1) + "\n";
  results::write_atomically(session->directory() + "/" + results::kSearchFile, text);
  results::write_atomically(session->directory() + "/table.md", page);
  std::cout << (options.json ? text : page) << std::flush;
  if (!ended) {
    log::error(fmt::format("interrupted; finished trials are in {}", session->directory()));
  }
  return status;
}

ExitStatus search(const session::SearchOptions& options) {
  session::check_directory_flags(options.run);
  const session::SearchQuestion question = session::read_question(options);
  const auto place = session::place_of(options.run);
  const plan::Plan plan = session::plan_of(
      question, place ? session::with_topology_of(*place, options.run) : options.run);
  return session::lead_or_follow(place, options.run, plan, [&](launch::Agents* agents) {
    return search_session(options.run, question, plan, agents);
  });
}

}  // namespace

void add_search_command(CLI::App& app, ExitStatus& status) {
  constexpr int kMostChecks = 1000;
  auto options = std::make_shared<session::SearchOptions>();
  CLI::App* command =
      app.add_subcommand("search", "Find the largest or smallest value that fits in memory")
          ->group(kRuns);
  add_plan_options(*command, options->run);
  add_session_options(*command, options->run);
  command->add_option("--largest", options->largest,
                      "accumulation_steps, micro_batch_size or sequence_length");
  command->add_option("--smallest", options->smallest, "memory_budget_bytes");
  command->add_option("--from", options->from, "Smallest value to try (1)");
  command->add_option("--to", options->to,
                      "Largest value to try; of a budget: twice what a run without one holds");
  command
      ->add_option("--checks", options->checks,
                   "Further values to try on each side of the edge, whether they agree (2)")
      ->check(CLI::Range(0, kMostChecks));
  command->add_flag("--json", options->run.json, "Print search.json instead of the table");
  command->callback([options, &status] {
    if (options->run.quiet) log::configure(true);
    status = search(*options);
  });
}

}  // namespace gradsync::cli
