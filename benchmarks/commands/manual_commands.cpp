// gradsync completion and gradsync man: what shells and man know of this command line.
#include <iostream>

#include "benchmarks/commands/commands.h"
#include "benchmarks/commands/plan_options.h"
#include "benchmarks/manual/completion.h"
#include "benchmarks/manual/help_screen.h"
#include "harness/base/build_info.h"
#include "harness/base/clock.h"
#include "harness/plan/strategies.h"
#include "models/suite.h"

namespace gradsync::cli {
namespace {

NamesByValue known_names() {
  NamesByValue names{{"PLAN", {"plans", {}}}, {"TOPOLOGY", {"topologies", {}}}};
  for (const models::SuiteModel& model : models::suite()) {
    names["MODEL"].words.push_back(model.name);
  }
  for (const plan::StrategyEntry& entry : plan::strategies()) {
    names["STRATEGY"].words.push_back(entry.name);
  }
  return names;
}

}  // namespace

void add_completion_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("completion", "Print the completion script of a shell")->group(kProgram);
  command->add_option("SHELL", "bash")->required()->check(is_one_of({"bash"}));
  command->callback([&app] { std::cout << bash_completion(page_of(app), known_names()); });
}

void add_man_command(CLI::App& app) {
  app.add_subcommand("man", "Print the man page, gradsync.1")->group(kProgram)->callback([&app] {
    std::cout << man_page(page_of(app), build_info().version, utc_timestamp(false).substr(0, 10));
  });
}

}  // namespace gradsync::cli
