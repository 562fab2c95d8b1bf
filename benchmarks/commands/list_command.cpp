// gradsync list: the names that a plan and the command line may use.
#include <fmt/ranges.h>

#include <iostream>

#include "benchmarks/commands/commands.h"
#include "harness/launch/topology.h"
#include "harness/plan/plan.h"
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

}  // namespace

void add_list_command(CLI::App& app, ExitStatus&) {
  CLI::App* command =
      app.add_subcommand("list", "List plans, models, topologies or strategies")->group(kProgram);
  auto kind = std::make_shared<std::string>();
  command->add_option("KIND", *kind, "plans, models, topologies or strategies")
      ->required()
      ->check(CLI::IsMember({"plans", "models", "topologies", "strategies"}));
  command->callback([kind] {
    if (*kind == "plans") list_plans();
    if (*kind == "models") list_models();
    if (*kind == "topologies") list_topologies();
    if (*kind == "strategies") list_strategies();
  });
}

}  // namespace gradsync::cli
