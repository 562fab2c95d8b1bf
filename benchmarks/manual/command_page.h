// The page of a command, read off its parser. The help screen, the completion script and the man
// page are made from it, so that each option is written down once, where it is registered.
//
// A command's group, and the group of its options, are CLI11's own; a hidden one has the group "".
// One table names the value of each option for all commands (kValues). A type name goes before it,
// where an option has another meaning in one of them: PLAN, TOPOLOGY, STRATEGY and MODEL are names
// that this program knows, FILE and DIR are paths.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace gradsync::cli {

struct OptionPage {
  std::vector<std::string> flags;  // "-h", "--help"; none for a positional
  std::string value;               // "PLAN"; "": it takes none
  std::vector<std::string> choices;
  std::string about;
  bool is_required = false;
  bool takes_several = false;  // in a row
};

struct CommandPage {
  std::string name;   // "predict memory"; "" for the program itself
  std::string about;  // a sentence
  std::string group;  // under which the program lists it
  std::string tail;   // what may stand behind its options, " -- COMMAND..."; ""
  std::vector<OptionPage> positionals;
  std::vector<OptionPage> options;
  std::vector<CommandPage> commands;
};

// Returns the page of `app`, without what is hidden. The footer of `app` (App::footer) is its tail.
CommandPage page_of(const CLI::App& app);

// Returns the pages of `program` and of all its commands, in the order of their registration, each
// before its own sub-commands.
std::vector<const CommandPage*> all_pages(const CommandPage& program);

// "gradsync predict memory [options] MODEL"
std::string usage_of(const CommandPage& page);

// Returns the last word of a command's name: "memory" of "predict memory".
std::string own_name(const CommandPage& page);

// Returns the groups of the program's commands, in the order of their first commands.
std::vector<std::string> groups_of(const CommandPage& program);

}  // namespace gradsync::cli
