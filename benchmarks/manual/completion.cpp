#include "benchmarks/manual/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "benchmarks/manual/completion_scripts.h"
#include "harness/base/errors.h"
#include "harness/base/words.h"

namespace gradsync::cli {
namespace {

// Shell commands that print candidates, a line each.
const std::string kPrint = "printf '%s\\n' ";
const std::string kAsk = "_gradsync_names \"$_gradsync_program\" ";

// The text with `value` where the mark stands, which it does once.
std::string filled(std::string text, const std::string& mark, const std::string& value) {
  return text.replace(text.find(mark), mark.size(), value);
}

std::string last_word(const std::string& name) {
  return name.substr(name.rfind(' ') + 1);
}

// The commands that `page` has, then its options.
std::vector<std::string> words_of(const CommandPage& page) {
  std::vector<std::string> words;
  for (const CommandPage& command : page.commands) words.push_back(last_word(command.name));
  for (const OptionPage& option : page.options) {
    words.insert(words.end(), option.flags.begin(), option.flags.end());
  }
  return words;
}

// A shell command that prints what the option takes; "" where any text may be.
std::string values_command(const OptionPage& option, const NamesByValue& names) {
  std::vector<std::string> words = option.choices;
  if (const auto known = names.find(option.value); words.empty() && known != names.end()) {
    if (known->second.words.empty()) return kAsk + known->second.asks;
    words = known->second.words;
  }
  if (words.empty()) return "";
  return kPrint + fmt::format("{}", fmt::join(words, " "));
}

std::string words_table(const CommandPage& program) {
  std::string table;
  for (const CommandPage* page : all_pages(program)) {
    table += fmt::format("  {}) {}{} ;;\n", in_quotes(page->name), kPrint,
                         fmt::join(words_of(*page), " "));
  }
  return table;
}

std::string values_table(const CommandPage& program, const NamesByValue& names) {
  std::string table;
  for (const CommandPage* page : all_pages(program)) {
    for (const OptionPage& positional : page->positionals) {
      const std::string command = values_command(positional, names);
      if (command.empty()) continue;
      table += fmt::format("  {}) {} ;;\n", in_quotes(page->name + " "), command);
    }
    for (const OptionPage& option : page->options) {
      if (option.value.empty()) continue;
      const std::string command = values_command(option, names);
      for (const std::string& flag : option.flags) {
        table += fmt::format("  {}) {} ;;\n", in_quotes(page->name + " " + flag),
                             command.empty() ? ":" : command);
      }
    }
  }
  return table;
}

std::string commands_pattern(const CommandPage& program) {
  std::vector<std::string> names;
  for (const CommandPage* page : all_pages(program)) {
    if (!page->name.empty()) names.push_back(in_quotes(page->name));
  }
  return fmt::format("{}", fmt::join(names, " | "));
}

std::string fish_values(const OptionPage& option, const NamesByValue& names) {
  const std::string command = values_command(option, names);
  if (command.empty()) return "";
  if (command.starts_with(kAsk)) return "(__gradsync_names " + command.substr(kAsk.size()) + ")";
  return command.substr(kPrint.size());
}

std::string fish_line(const CommandPage& page, const std::string& rest) {
  return fmt::format("complete -c gradsync -n {} {}\n",
                     in_quotes(fmt::format("__gradsync_at \"{}\"", page.name)), rest);
}

std::string fish_option(const CommandPage& page, const OptionPage& option,
                        const NamesByValue& names) {
  std::string rest;
  for (const std::string& flag : option.flags) {
    const bool is_long = flag.starts_with("--");
    rest += fmt::format("{} {} ", is_long ? "-l" : "-s", flag.substr(is_long ? 2 : 1));
  }
  if (!option.value.empty()) {
    const std::string values = fish_values(option, names);
    rest += values.empty() ? "-r " : fmt::format("-x -a {} ", in_quotes(values));
  }
  return fish_line(page, rest + "-d " + in_quotes(option.about));
}

std::string fish_script(const CommandPage& program, const NamesByValue& names) {
  std::vector<std::string> commands;
  std::string lines;
  for (const CommandPage* page : all_pages(program)) {
    if (!page->name.empty()) commands.push_back(in_quotes(page->name));
    for (const CommandPage& command : page->commands) {
      lines += fish_line(*page, fmt::format("-a {} -d {}", in_quotes(last_word(command.name)),
                                            in_quotes(command.about)));
    }
    for (const OptionPage& positional : page->positionals) {
      const std::string values = fish_values(positional, names);
      if (!values.empty()) lines += fish_line(*page, "-a " + in_quotes(values));
    }
    for (const OptionPage& option : page->options) lines += fish_option(*page, option, names);
  }
  return filled(kFishScript, "@COMMANDS@", fmt::format("{}", fmt::join(commands, " "))) + lines;
}

}  // namespace

std::string completion_script(const std::string& shell, const CommandPage& program,
                              const NamesByValue& names) {
  if (shell == "fish") return fish_script(program, names);
  if (shell != "bash" && shell != "zsh") {
    throw ConfigError("completion: got " + shell + ", expected bash, zsh or fish");
  }
  std::string tables = filled(kShellTables, "@WORDS@", words_table(program));
  tables = filled(tables, "@VALUES@", values_table(program, names));
  tables = filled(tables, "@COMMANDS@", commands_pattern(program));
  return filled(shell == "bash" ? kBashScript : kZshScript, "@TABLES@", tables);
}

}  // namespace gradsync::cli
