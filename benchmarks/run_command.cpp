// gradsync run: plan -> launches -> results, tables and pictures.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <iostream>
#include <set>

#include "benchmarks/commands.h"
#include "benchmarks/context.h"
#include "benchmarks/exit_status.h"
#include "benchmarks/interrupt.h"
#include "benchmarks/job.h"
#include "benchmarks/run_options.h"
#include "benchmarks/session.h"
#include "harness/base/build_info.h"
#include "harness/base/log.h"
#include "harness/launch/host.h"
#include "harness/report/text_table.h"

namespace gradsync::cli {
namespace {

using nlohmann::json;

// Cell parameters that differ between the trials, beside those that every table shows.
std::vector<std::string> varying_parameters(const json& list) {
  static const std::set<std::string> shown{"topology", "model", "strategy"};
  std::vector<std::string> varying;
  if (list.empty()) return varying;
  for (const auto& [name, value] : list.front().at("cell").items()) {
    const auto differs = [&, &name = name, &value = value](const json& trial) {
      return trial.at("cell").at(name) != value;
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
    for (const std::string& name : varying) row.push_back(plain(cell.at(name)));
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

void warn_about_host(const json& host, const json& gpus) {
  for (const launch::Finding& finding : findings_about(host, gpus)) {
    if (finding.severity == launch::Finding::Severity::Ok) continue;
    log::warn(fmt::format("{} ({})", finding.what, finding.remedy));
  }
  if (!build_info().timing_valid) {
    log::warn(
        "this is a debug or sanitizer build: its times mean nothing (use the release preset)");
  }
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
std::string resume_command(const RunOptions& options, const std::string& directory) {
  std::string command = "gradsync run " + quoted(options.plan);
  for (const std::string& text : options.overrides) command += " --set " + quoted(text);
  if (!options.weights.empty()) command += " --weights " + quoted(options.weights);
  if (!options.data.empty()) command += " --data " + quoted(options.data);
  return command + " --resume --out " + quoted(directory);
}

// `agents`: those of an outside launcher; null: this process starts the ranks itself.
ExitStatus run_session(const RunOptions& options, const plan::Plan& plan, launch::Agents* agents) {
  json host = launch::probe_host();
  if (agents != nullptr) host["other_gradsync"] = nullptr;  // the tasks of this very job
  const json gpus = gpus_for(plan);
  warn_about_host(host, gpus);
  catch_interrupts();
  Session session(options, plan, make_context(options, plan, host, gpus), agents);
  try {
    session.run();
  } catch (const run::Interrupted&) {
    session.finish(ExitStatus::Interrupted);
    log::error(fmt::format("interrupted; finished trials are in {}, go on with: {}",
                           session.directory(), resume_command(options, session.directory())));
    return ExitStatus::Interrupted;
  } catch (const ResultsError&) {
    throw;  // nothing can be written
  } catch (const std::exception& error) {
    session.close(exit_status_of(error));
    throw;
  }
  const ExitStatus status = exit_status_of(session.trials());
  session.finish(status);
  return status;
}

// An outside launcher's nodes and ranks are what there is: the one topology of the plan.
RunOptions with_topology_of(const launch::TaskPlace& place, RunOptions options) {
  const std::string name = place.topology().name;
  for (const std::string& text : options.overrides) {
    const std::string field = text.substr(0, text.find('='));
    if (!field.ends_with("topology")) continue;
    throw ConfigError(
        fmt::format("--set {}: {} started {} nodes of {} ranks, and so the topology is {}; leave "
                    "it out, or give --launcher none",
                    text, place.launcher, place.nodes, place.ranks_per_node, name));
  }
  options.overrides.push_back("topology=" + name);
  return options;
}

ExitStatus run_plan(const RunOptions& options) {
  if ((options.resume || options.force) && options.out.empty()) {
    throw ConfigError(fmt::format("{} needs --out DIR: the directory of the earlier run",
                                  options.resume ? "--resume" : "--force"));
  }
  const auto place = place_of(options);
  const plan::Plan plan = checked_plan(place ? with_topology_of(*place, options) : options);
  if (options.dry_run) {
    if (!place || place->task == 0) print_dry_run(plan, options.json);
    return ExitStatus::Ok;
  }
  require_device(plan);
  if (!place) return run_session(options, plan, nullptr);
  if (plan.backend == "fake") {
    throw ConfigError(plan.file, "backend", fmt::format("\"fake\" under {}", place->launcher),
                      "another one, or --launcher none: one rank stands for all");
  }
  if (place->task != 0) return follow(*place, options, plan);
  Job job(*place, options, plan);
  ExitStatus status = ExitStatus::Internal;
  try {
    status = run_session(options, plan, &job.agents());
  } catch (const std::exception& error) {
    job.end(exit_status_of(error));
    throw;
  }
  job.end(status);
  return status;
}

// --strategy and its like are shorthands of --set; several values make a list.
void add_shorthand(CLI::App& command, RunOptions& options, const std::string& flag,
                   const std::string& field, const std::string& about) {
  command
      .add_option_function<std::vector<std::string>>(
          flag,
          [&options, field](const std::vector<std::string>& values) {
            options.overrides.push_back(fmt::format("{}={}", field, fmt::join(values, ",")));
          },
          about)
      ->expected(1)
      ->take_all();
}

}  // namespace

void add_run_command(CLI::App& app, ExitStatus& status) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Run a plan; print its table, write its results");
  command->add_option("PLAN", options->plan, "A name in benchmarks/plans, or a file")->required();
  command->add_option("--set", options->overrides, "Override a field of the plan (repeatable)")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all();
  add_shorthand(*command, *options, "--topology", "topology", "Only this topology (repeatable)");
  add_shorthand(*command, *options, "--strategy", "strategy", "Only this strategy (repeatable)");
  add_shorthand(*command, *options, "--model", "model", "This model");
  add_shorthand(*command, *options, "--launches", "launches", "Launches");
  add_shorthand(*command, *options, "--rounds", "rounds", "Rounds per launch");
  add_shorthand(*command, *options, "--steps", "steps", "Timed steps per cell, round and launch");
  add_shorthand(*command, *options, "--seed", "seed", "Seed of order, parameters and data");
  add_shorthand(*command, *options, "--device", "device", "cpu or cuda");
  add_shorthand(*command, *options, "--backend", "backend",
                "gloo, nccl, or fake: one real rank of the world, nothing is sent");
  add_shorthand(*command, *options, "--window-rule", "window_rule", "honest or as_published");
  command->add_option("--out", options->out, "Directory for the results");
  command->add_option("--weights", options->weights, "Start from a safetensors checkpoint");
  command->add_option("--data", options->data, "Train on token ids from a JSON Lines file");
  command
      ->add_option("--launcher", options->launcher, "auto, or none: ignore torchrun and its like")
      ->check(CLI::IsMember({"auto", "none"}));
  command->add_option("--ranks-per-node", options->ranks_per_node,
                      "Ranks that each task starts, where a launcher starts one task per node");
  command->add_option("--join-timeout", options->join_timeout_s,
                      "Seconds until every task of a launcher must have joined");
  command->add_flag("--resume", options->resume, "Go on with the run in --out");
  command->add_flag("--force", options->force, "Replace the run in --out");
  command->add_flag("--dry-run", options->dry_run, "Print the trials in order, run nothing");
  command->add_flag("--quiet", options->quiet, "Only errors on stderr");
  command->add_flag("--json", options->json, "Print result.json instead of the table");
  command->callback([options, &app, &status] {
    if (options->quiet) log::configure(true);
    status = run_plan(*options);
  });
}

}  // namespace gradsync::cli
