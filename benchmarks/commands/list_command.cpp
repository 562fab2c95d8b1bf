// gradsync list: the names that a plan and the command line may use.
#include <fmt/ranges.h>

#include <iostream>

#include "benchmarks/commands/commands.h"
#include "benchmarks/commands/plan_options.h"
#include "harness/base/errors.h"
#include "harness/launch/topology.h"
#include "harness/plan/cell.h"
#include "harness/plan/strategies.h"
#include "harness/session/paths.h"
#include "harness/session/rank_program.h"

namespace gradsync::cli {
namespace {

void print_row(const std::string& name, const std::string& about) {
  std::cout << fmt::format("{:<22}  {}\n", name, about);
}

void list_plans() {
  for (const std::string& name : plan::list_plans(session::plans_directory())) {
    print_row(name,
              plan::read_plan(plan::resolve_plan(name, session::plans_directory()), {}).about);
  }
}

void list_topologies() {
  for (const std::string& name : launch::list_topologies(session::topologies_directory())) {
    print_row(name, launch::read_topology(name, session::topologies_directory()).about);
  }
  print_row("NxR", "any other N nodes x R ranks, with unshaped links");
}

void list_models() {
  for (const models::ModelDescription& model : session::known_models())
    print_row(model.name, model.about);
  print_row("FILE.json", "a paced model from a profile, as models/record_profile.py writes it");
}

void list_strategies() {
  for (const plan::StrategyEntry& entry : plan::strategies()) {
    print_row(entry.name, fmt::format("{}: {}", fmt::join(entry.wrappers, ", "), entry.about));
  }
}

void list_options() {
  for (const plan::Axis& axis : plan::axes()) {
    print_row(axis.name, fmt::format("{} Expected: {}; {} by default.", axis.help, axis.expected,
                                     plan::default_of(axis).dump()));
  }
}

// Prints the lines of plan.schema.json that are about the options of cells.
void list_options_as_schema() {
  std::string lines;
  for (const plan::Axis& axis : plan::axes()) {
    lines += fmt::format("{}\n  \"{}\": {}", lines.empty() ? "" : ",", axis.name,
                         plan::list_schema(axis).dump());
  }
  std::cout << "{" << lines << "\n}\n";
}

}  // namespace

void add_list_command(CLI::App& app, ExitStatus&) {
  CLI::App* command =
      app.add_subcommand("list", "List plans, models, topologies, strategies or options of cells")
          ->group(kProgram);
  auto kind = std::make_shared<std::string>();
  command->add_option("KIND", *kind, "plans, models, topologies, strategies or options")
      ->required()
      ->check(is_one_of({"plans", "models", "topologies", "strategies", "options"}));
  auto as_json = std::make_shared<bool>(false);
  command->add_flag("--json", *as_json, "For options: print their part of plan.schema.json");
  command->callback([kind, as_json] {
    if (*as_json && *kind != "options") {
      throw ConfigError(fmt::format("--json: got {}, expected options", *kind));
    }
    if (*kind == "plans") list_plans();
    if (*kind == "models") list_models();
    if (*kind == "topologies") list_topologies();
    if (*kind == "strategies") list_strategies();
    if (*kind == "options") *as_json ? list_options_as_schema() : list_options();
  });
}

}  // namespace gradsync::cli
