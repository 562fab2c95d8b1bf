// gradsync run: plan -> launches -> results, tables and pictures.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <set>

#include "benchmarks/commands/commands.h"
#include "benchmarks/commands/plan_options.h"
#include "benchmarks/commands/predict_elsewhere.h"
#include "harness/base/errors.h"
#include "harness/base/log.h"
#include "harness/base/words.h"
#include "harness/predict/link_file.h"
#include "harness/session/exit_status.h"
#include "harness/session/outside_launcher.h"
#include "harness/session/run_options.h"
#include "harness/session/session_start.h"
#include "harness/text/text_table.h"

namespace gradsync::cli {
namespace {

using nlohmann::json;

// A trial of a dry run.
struct ListedTrial {
  plan::Trial trial;
  std::string part;
  int launch = 0;
};

nlohmann::json to_json(const ListedTrial& planned) {
  return {{"order", planned.trial.order},
          {"part", planned.part},
          {"launch", planned.launch},
          {"round", planned.trial.round},
          {"cell", planned.trial.cell},
          {"steps", planned.trial.steps},
          {"warmup_steps", planned.trial.warmup_steps}};
}

std::vector<ListedTrial> trials_of(const plan::Plan& plan) {
  std::vector<ListedTrial> list;
  for (const plan::Launch& launch : plan::expand(plan)) {
    for (const plan::Trial& trial : launch.trials) {
      list.push_back({trial, launch.part, launch.launch});
    }
  }
  return list;
}

// Returns the cell parameters that differ between the trials, or that only some have, without those
// that every table shows.
std::vector<std::string> varying_parameters(const std::vector<json>& cells) {
  static const std::set<std::string> shown{"topology", "model", "strategy"};
  std::vector<std::string> varying;
  if (cells.empty()) return varying;
  for (const auto& [name, value] : cells.front().items()) {
    const auto differs = [&, &name = name, &value = value](const json& cell) {
      return cell.value(name, json()) != value;
    };
    if (!shown.contains(name) && std::ranges::any_of(cells, differs)) varying.push_back(name);
  }
  return varying;
}

// Steps: warm-up + timed.
text::TextTable dry_run_table(const std::vector<ListedTrial>& list) {
  using text::Align;
  std::vector<text::TextTable::Column> columns{{"order", Align::Right},   {"part", Align::Left},
                                               {"launch", Align::Right},  {"round", Align::Right},
                                               {"topology", Align::Left}, {"model", Align::Left},
                                               {"strategy", Align::Left}, {"steps", Align::Right}};
  std::vector<json> cells;
  for (const ListedTrial& planned : list) cells.emplace_back(planned.trial.cell);
  const auto varying = varying_parameters(cells);
  for (const std::string& name : varying) columns.push_back({name, Align::Right});
  text::TextTable table(columns);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto& [trial, part, launch] = list[i];
    std::vector<std::string> row{std::to_string(trial.order + 1),
                                 part,
                                 std::to_string(launch + 1),
                                 std::to_string(trial.round + 1),
                                 trial.cell.topology,
                                 trial.cell.model,
                                 trial.cell.strategy,
                                 fmt::format("{}+{}", trial.warmup_steps, trial.steps)};
    for (const std::string& name : varying) {
      const json value = cells[i].value(name, json("-"));
      row.push_back(value.is_string() ? value.get<std::string>() : value.dump());
    }
    table.add_row(std::move(row));
  }
  return table;
}

// Prints the order in which trials would run, as a Markdown table or JSON.
void print_dry_run(const plan::Plan& plan, bool as_json) {
  const std::vector<ListedTrial> list = trials_of(plan);
  if (as_json) {
    json out = json::array();
    for (const ListedTrial& planned : list) out.push_back(to_json(planned));
    std::cout << out.dump(1) << "\n";
    return;
  }
  std::cout << fmt::format("plan {}: {} trials\n\n", plan.name, list.size())
            << dry_run_table(list).to_markdown();
}

// Returns the command that continues an interrupted run. It has the overrides of the run, since
// another plan would be refused.
std::string resume_command(const session::RunOptions& options, const std::string& directory) {
  std::vector<std::string> words{"gradsync", "run", options.plan};
  const auto add = [&](const char* flag, const std::string& value) {
    words.insert(words.end(), {flag, value});
  };
  for (const std::string& text : options.overrides) add("--set", text);
  if (!options.weights.empty()) add("--weights", options.weights);
  if (!options.data.empty()) add("--data", options.data);
  words.emplace_back("--resume");
  add("--out", directory);
  return joined_words(words);
}

// What is printed beside the results of a run.
struct Beside {
  bool predicts = false;
  std::string links;  // a file of schema gradsync.links/1; "": assumed values
};

// Throws ConfigError before anything runs.
void refuse_wrong(const Beside& beside, const session::RunOptions& options) {
  if (!beside.predicts && !beside.links.empty()) {
    throw ConfigError("--links: got it alone, expected it with --predict");
  }
  if (beside.predicts && options.json) {
    throw ConfigError("--predict: got --json, expected one: predict step DIR --json prints both");
  }
  predict::read_link_file(beside.links);
}

// `agents`: those of an outside launcher; null: this process starts the ranks itself.
ExitStatus run_session(const session::RunOptions& options, const plan::Plan& plan,
                       const Beside& beside, launch::Agents* agents) {
  const auto session = session::start_session(options, plan, agents);
  if (!session::run_to_end(*session, [&] { session->run(); })) {
    session->finish(ExitStatus::Interrupted);
    log::error(fmt::format("interrupted; finished trials are in {}, continue with: {}",
                           session->directory(), resume_command(options, session->directory())));
    return ExitStatus::Interrupted;
  }
  const ExitStatus status = session::exit_status_of(session->trials(), plan);
  session->finish(status);
  if (beside.predicts) print_beside(session->directory(), beside.links);
  return status;
}

ExitStatus run_plan(const session::RunOptions& options, const Beside& beside) {
  refuse_wrong(beside, options);
  session::check_directory_flags(options);
  const auto place = session::place_of(options);
  const plan::Plan plan =
      session::checked_plan(place ? session::with_topology_of(*place, options) : options);
  if (options.dry_run) {
    if (!place || place->task == 0) print_dry_run(plan, options.json);
    return ExitStatus::Ok;
  }
  return session::lead_or_follow(place, options, plan, [&](launch::Agents* agents) {
    return run_session(options, plan, beside, agents);
  });
}

}  // namespace

void add_run_command(CLI::App& app, ExitStatus& status) {
  auto options = std::make_shared<session::RunOptions>();
  auto beside = std::make_shared<Beside>();
  CLI::App* command =
      app.add_subcommand("run", "Run a plan; print its table, write its results")->group(kRuns);
  add_plan_options(*command, *options);
  add_session_options(*command, *options);
  add_shorthand(*command, *options, "--launches", "launches", "Launches");
  add_shorthand(*command, *options, "--rounds", "rounds", "Rounds per launch");
  add_shorthand(*command, *options, "--window-rule", "window_rule", "honest or as_published");
  command->add_flag("--resume", options->resume, "Continue the run in --out");
  command->add_flag("--dry-run", options->dry_run, "Print the trials in order, run nothing");
  command->add_flag("--json", options->json, "Print result.json instead of the table");
  command->add_flag("--predict", beside->predicts,
                    "Also print what predict step says, beside what was measured");
  command->add_option("--links", beside->links, "What links and hosts cost, for --predict");
  command->callback([options, beside, &status] {
    if (options->quiet) log::configure(true);
    status = run_plan(*options, *beside);
  });
}

}  // namespace gradsync::cli
