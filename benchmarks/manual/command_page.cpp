#include "benchmarks/manual/command_page.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace gradsync::cli {
namespace {

// "TEXT:{auto,none}" is a type with choices; "INT:INT in [1 - 100]" one with bounds.
constexpr const char* kChoices = ":{";

std::vector<std::string> choices_in(const std::string& type) {
  const auto start = type.find(kChoices);
  if (start == std::string::npos) return {};
  std::vector<std::string> choices(1);
  for (const char c : type.substr(start + std::string(kChoices).size())) {
    if (c == '}') break;
    if (c == ',') {
      choices.emplace_back();
    } else {
      choices.back() += c;
    }
  }
  return choices;
}

struct ValueName {
  std::string_view flag;
  std::string_view value;
};

// The name of each flag's value, in every command that does not name it itself.
constexpr ValueName kValues[] = {
    {"--accumulation-steps", "N"},
    {"--alpha", "PERCENT"},
    {"--budget", "SIZE"},
    {"--checks", "N"},
    {"--data", "FILE"},
    {"--every", "N"},
    {"--from", "N"},
    {"--gates", "NAME"},
    {"--global-batch", "N"},
    {"--html", "FILE"},
    {"--interface", "NAME"},
    {"--job", "NAME"},
    {"--join-timeout", "SECONDS"},
    {"--json", "FILE"},
    {"--keep", "DIR"},
    {"--largest", "FIELD"},
    {"--launches", "N"},
    {"--links", "FILE"},
    {"--margin", "PERCENT"},
    {"--markdown", "FILE"},
    {"--mean-smallest-effect", "PERCENT"},
    {"--micro-batch-size", "N"},
    {"--micro-batches", "N"},
    {"--most", "N"},
    {"--nodes", "N"},
    {"--on", "GPUS"},
    {"--operation", "OPERATION"},
    {"--out", "DIR"},
    {"--plan", "PLAN"},
    {"--prometheus", "FILE.prom"},
    {"--python", "PROGRAM"},
    {"--ranks", "N"},
    {"--ranks-per-node", "N"},
    {"--replay", "DIR"},
    {"--results", "DIR"},
    {"--rounds", "N"},
    {"--sample", "SHARE"},
    {"--seed", "N"},
    {"--smallest", "FIELD"},
    {"--smallest-effect", "PERCENT"},
    {"--starts", "N"},
    {"--steps", "N"},
    {"--steps-json", "FILE"},
    {"--step-timeout", "DURATION"},
    {"--tensorboard", "DIR"},
    {"--time-budget", "DURATION"},
    {"--to", "N"},
    {"--topology-out", "FILE"},
    {"--trace", "FILE"},
    {"--units", "NAME"},
    {"--weights", "PATH"},
    {"--window-rule", "RULE"},
    {"--world", "N"},
    {"--world-size", "N"},
};

std::string value_of(const CLI::Option& option, const std::string& type) {
  for (const std::string& name : option.get_lnames()) {
    const auto found = std::ranges::find(kValues, "--" + name, &ValueName::flag);
    if (found != std::end(kValues)) return std::string(found->value);
  }
  return type.substr(0, type.find(':'));
}

OptionPage option_page(const CLI::Option& option) {
  OptionPage page;
  for (const std::string& name : option.get_snames()) page.flags.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) page.flags.push_back("--" + name);
  const std::string type = option.get_type_name();
  page.choices = choices_in(type);
  if (option.get_positional()) {
    page.value = option.get_name(true);
  } else if (option.get_items_expected_max() > 0) {
    page.value = value_of(option, type);
  }
  page.about = option.get_description();
  page.is_required = option.get_required();
  page.takes_several = option.get_items_expected_max() > 1;
  return page;
}

CommandPage page_below(const CLI::App& app, const std::string& name) {
  CommandPage page;
  page.name = name;
  page.about = app.get_description();
  page.group = app.get_group();
  page.tail = app.get_footer();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    (option->get_positional() ? page.positionals : page.options).push_back(option_page(*option));
  }
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_group().empty()) continue;
    const std::string before = name.empty() ? "" : name + " ";
    page.commands.push_back(page_below(*command, before + command->get_name()));
  }
  return page;
}

void add_pages(const CommandPage& page, std::vector<const CommandPage*>& pages) {
  pages.push_back(&page);
  for (const CommandPage& command : page.commands) add_pages(command, pages);
}

}  // namespace

CommandPage page_of(const CLI::App& app) {
  std::string name;
  for (const CLI::App* at = &app; at->get_parent() != nullptr; at = at->get_parent()) {
    name.insert(0, at->get_name() + (name.empty() ? "" : " "));
  }
  return page_below(app, name);
}

std::vector<const CommandPage*> all_pages(const CommandPage& program) {
  std::vector<const CommandPage*> pages;
  add_pages(program, pages);
  return pages;
}

std::string usage_of(const CommandPage& page) {
  std::string text = "gradsync";
  if (!page.name.empty()) text += " " + page.name;
  if (!page.commands.empty()) text += " COMMAND";
  text += " [options]";
  for (const OptionPage& positional : page.positionals) {
    const std::string several = positional.takes_several ? "..." : "";
    text += positional.is_required ? " " + positional.value + several
                                   : " [" + positional.value + several + "]";
  }
  return text + page.tail;
}

std::string own_name(const CommandPage& page) {
  return page.name.substr(page.name.rfind(' ') + 1);
}

std::vector<std::string> groups_of(const CommandPage& program) {
  std::vector<std::string> groups;
  for (const CommandPage& command : program.commands) {
    if (std::ranges::find(groups, command.group) == groups.end()) groups.push_back(command.group);
  }
  return groups;
}

}  // namespace gradsync::cli
