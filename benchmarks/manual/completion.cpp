#include "benchmarks/manual/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "benchmarks/manual/completion_scripts.h"
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

std::vector<std::string> words_of(const CommandPage& page) {
  std::vector<std::string> words;
  for (const CommandPage& command : page.commands) words.push_back(own_name(command));
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

}  // namespace

std::string bash_completion(const CommandPage& program, const NamesByValue& names) {
  std::string script = filled(kBashScript, "@WORDS@", words_table(program));
  script = filled(script, "@VALUES@", values_table(program, names));
  return filled(script, "@COMMANDS@", commands_pattern(program));
}

}  // namespace gradsync::cli
