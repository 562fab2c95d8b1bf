// The pages of commands as people see them: `--help`, of the program on one screen and of each
// command, in 80 columns; and gradsync.1, the man page.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "benchmarks/manual/command_page.h"

namespace gradsync::cli {

// Returns the program's screen: its commands by group, then examples.
std::string help_screen(const CommandPage& program);

// Returns a command's screen: its usage and options.
std::string command_help(const CommandPage& command);

// Makes help for CLI11. Commands inherit it from the program if it is set before they are added.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
};

// Returns the man page in the macros of roff(7). `version`: the program's; `date`: of the day it is
// made, as in 2026-11-23.
std::string man_page(const CommandPage& program, const std::string& version,
                     const std::string& date);

}  // namespace gradsync::cli
