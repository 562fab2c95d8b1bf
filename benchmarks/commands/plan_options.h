// The options that commands share: what runs, where results go, what starts the ranks.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "harness/session/run_options.h"

namespace gradsync::cli {

// Returns a check that refuses every value but these names, and says which one is near.
CLI::Validator is_one_of(const std::vector<std::string>& names);

// Registers PLAN and the options that choose what runs. `options` must outlive `command`.
void add_plan_options(CLI::App& command, session::RunOptions& options);

// Removes a field that is not of cells from the overrides, as "on=8xh100", and returns its last
// value.
std::optional<std::string> take_override(std::vector<std::string>& overrides,
                                         const std::string& field);

// Registers --set and a shorthand of it for each of `fields`, "micro-batch-size" as it is spelled
// there. `overrides` must outlive `command`.
void add_cell_options(CLI::App& command, std::vector<std::string>& overrides,
                      std::initializer_list<const char*> fields);

// Returns the bytes of --budget. Errors: ConfigError.
std::int64_t read_budget(const std::string& text);

// Registers the options that say where results go and what starts the ranks.
void add_session_options(CLI::App& command, session::RunOptions& options);

// Returns the name of a field's value in help: TOPOLOGY for "topology".
std::string value_name(const std::string& field);

// Registers `flag` as a shorthand of --set `field`; several values make a list.
void add_shorthand(CLI::App& command, session::RunOptions& options, const std::string& flag,
                   const std::string& field, const std::string& about);

}  // namespace gradsync::cli
