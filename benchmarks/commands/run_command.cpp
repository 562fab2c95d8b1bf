// gradsync run: plan -> launches -> results, tables and pictures.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <iostream>
#include <set>

#include "benchmarks/commands/commands.h"
#include "benchmarks/commands/plan_options.h"
#include "harness/base/log.h"
#include "harness/session/exit_status.h"
#include "harness/session/job.h"
#include "harness/session/run_options.h"
#include "harness/session/session_start.h"
#include "harness/text/text_table.h"

namespace gradsync::cli {
namespace {

using nlohmann::json;

// Cell parameters that differ between the trials, or that only some have, beside those that every
// table shows.
std::vector<std::string> varying_parameters(const json& list) {
  static const std::set<std::string> shown{"topology", "model", "strategy"};
  std::vector<std::string> varying;
  if (list.empty()) return varying;
  for (const auto& [name, value] : list.front().at("cell").items()) {
    const auto differs = [&, &name = name, &value = value](const json& trial) {
      return trial.at("cell").value(name, json()) != value;
    };
    if (!shown.contains(name) && std::any_of(list.begin(), list.end(), differs)) {
      varying.push_back(name);
    }
  }
  return varying;
}

report::TextTable dry_run_table(const json& list) {
  using report::Align;
  std::vector<report::TextTable::Column> columns{
      {"order", Align::Right},   {"part", Align::Left},     {"launch", Align::Right},
      {"round", Align::Right},   {"topology", Align::Left}, {"model", Align::Left},
      {"strategy", Align::Left}, {"steps", Align::Right}};
  const auto varying = varying_parameters(list);
  for (const std::string& name : varying) columns.push_back({name, Align::Right});
  report::TextTable table(columns);
  const auto plain = [](const json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
  };
  const auto number = [](const json& value) { return std::to_string(value.get<int>() + 1); };
  for (const json& trial : list) {
    const json& cell = trial.at("cell");
    std::vector<std::string> row{
        number(trial.at("order")),
        plain(trial.at("part")),
        number(trial.at("launch")),
        number(trial.at("round")),
        plain(cell.at("topology")),
        plain(cell.at("model")),
        plain(cell.at("strategy")),
        fmt::format("{}+{}", trial.at("warmup_steps").get<int>(), trial.at("steps").get<int>())};
    for (const std::string& name : varying) {
      row.push_back(cell.contains(name) ? plain(cell.at(name)) : "-");
    }
    table.add_row(std::move(row));
  }
  return table;
}

// The order in which trials would run, as a Markdown table or JSON. Steps: warm-up + timed.
void print_dry_run(const plan::Plan& plan, bool as_json) {
  json list = json::array();
  for (const plan::Launch& launch : plan::expand(plan)) {
    for (const plan::Trial& trial : launch.trials) {
      list.push_back({{"order", trial.order},
                      {"part", launch.part},
                      {"launch", launch.launch},
                      {"round", trial.round},
                      {"cell", trial.cell},
                      {"steps", trial.steps},
                      {"warmup_steps", trial.warmup_steps}});
    }
  }
  if (as_json) {
    std::cout << list.dump(1) << "\n";
    return;
  }
  std::cout << fmt::format("plan {}: {} trials\n\n", plan.name, list.size())
            << dry_run_table(list).to_markdown();
}

// A word as a shell reads it back.
std::string quoted(const std::string& word) {
  const auto harmless = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::strchr("_-./=,:+", c) != nullptr;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), harmless)) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// What goes on with an interrupted run; with its overrides, since another plan would be refused.
std::string resume_command(const session::RunOptions& options, const std::string& directory) {
  std::string command = "gradsync run " + quoted(options.plan);
  for (const std::string& text : options.overrides) command += " --set " + quoted(text);
  if (!options.weights.empty()) command += " --weights " + quoted(options.weights);
  if (!options.data.empty()) command += " --data " + quoted(options.data);
  return command + " --resume --out " + quoted(directory);
}

// `agents`: those of an outside launcher; null: this process starts the ranks itself.
ExitStatus run_session(const session::RunOptions& options, const plan::Plan& plan,
                       launch::Agents* agents) {
  const auto session = session::start_session(options, plan, agents);
  if (!session::run_to_end(*session, [&] { session->run(); })) {
    session->finish(ExitStatus::Interrupted);
    log::error(fmt::format("interrupted; finished trials are in {}, go on with: {}",
                           session->directory(), resume_command(options, session->directory())));
    return ExitStatus::Interrupted;
  }
  const ExitStatus status = session::exit_status_of(session->trials(), plan);
  session->finish(status);
  return status;
}

ExitStatus run_plan(const session::RunOptions& options) {
  session::check_directory_flags(options);
  const auto place = session::place_of(options);
  const plan::Plan plan =
      session::checked_plan(place ? session::with_topology_of(*place, options) : options);
  if (options.dry_run) {
    if (!place || place->task == 0) print_dry_run(plan, options.json);
    return ExitStatus::Ok;
  }
  return session::lead_or_follow(place, options, plan, [&](launch::Agents* agents) {
    return run_session(options, plan, agents);
  });
}

}  // namespace

void add_run_command(CLI::App& app, ExitStatus& status) {
  auto options = std::make_shared<session::RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Run a plan; print its table, write its results");
  add_plan_options(*command, *options);
  add_session_options(*command, *options);
  add_shorthand(*command, *options, "--launches", "launches", "Launches");
  add_shorthand(*command, *options, "--rounds", "rounds", "Rounds per launch");
  add_shorthand(*command, *options, "--window-rule", "window_rule", "honest or as_published");
  command->add_flag("--resume", options->resume, "Go on with the run in --out");
  command->add_flag("--dry-run", options->dry_run, "Print the trials in order, run nothing");
  command->add_flag("--json", options->json, "Print result.json instead of the table");
  command->callback([options, &app, &status] {
    if (options->quiet) log::configure(true);
    status = run_plan(*options);
  });
}

}  // namespace gradsync::cli
