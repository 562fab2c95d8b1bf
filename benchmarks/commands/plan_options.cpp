#include "benchmarks/commands/plan_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <stdexcept>

#include "harness/base/errors.h"
#include "harness/base/nearest.h"
#include "harness/base/units.h"

namespace gradsync::cli {

std::string value_name(const std::string& field) {
  std::string name = field;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name;
}

void add_shorthand(CLI::App& command, session::RunOptions& options, const std::string& flag,
                   const std::string& field, const std::string& about) {
  command
      .add_option_function<std::vector<std::string>>(
          flag,
          [&options, field](const std::vector<std::string>& values) {
            options.overrides.push_back(fmt::format("{}={}", field, fmt::join(values, ",")));
          },
          about)
      ->type_name(value_name(field))
      ->expected(1)
      ->take_all();
}

void add_plan_options(CLI::App& command, session::RunOptions& options) {
  command.add_option("PLAN", options.plan, "A name in benchmarks/plans, or a file")->required();
  command.add_option("--set", options.overrides, "Override a field of the plan (repeatable)")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all();
  add_shorthand(command, options, "--topology", "topology", "Only this topology (repeatable)");
  add_shorthand(command, options, "--strategy", "strategy", "Only this strategy (repeatable)");
  add_shorthand(command, options, "--model", "model", "This model");
  add_shorthand(command, options, "--steps", "steps", "Timed steps per cell, round and launch");
  add_shorthand(command, options, "--seed", "seed", "Seed of order, parameters and data");
  add_shorthand(command, options, "--device", "device",
                "cpu, cuda, or paper: cuda's code on GPUs that are not there");
  add_shorthand(command, options, "--on", "on",
                "GPUs of paper on each host: 8xh100 or 8x79GiB (with --device paper)");
  add_shorthand(command, options, "--backend", "backend",
                "gloo, nccl, or fake: one real rank of the world, nothing is sent");
  command.add_flag_callback(
      "--every-micro-batch",
      [&options] { options.overrides.emplace_back("every_micro_batch=true"); },
      "Also run micro-batches that repeat the one before, where no time is wanted");
  command.add_option("--weights", options.weights,
                     "Start from a checkpoint: a safetensors file, an index of several, or the "
                     "folder that has them");
  command.add_option("--data", options.data, "Train on token ids from a JSON Lines file");
}

void add_cell_options(CLI::App& command, std::vector<std::string>& overrides,
                      std::initializer_list<const char*> fields) {
  command.add_option("--set", overrides,
                     "Set a field of a plan's cells; several values make a row each (repeatable)");
  for (const char* field : fields) {
    std::string axis = field;
    std::ranges::replace(axis, '-', '_');
    command
        .add_option_function<std::string>(
            fmt::format("--{}", field),
            [&overrides, axis](const std::string& value) {
              overrides.push_back(fmt::format("{}={}", axis, value));
            },
            fmt::format("Short for --set {}=...", axis))
        ->type_name(value_name(axis));
  }
}

std::int64_t read_budget(const std::string& text) {
  try {
    return parse_size_bytes(text);
  } catch (const std::invalid_argument& error) {
    throw ConfigError(fmt::format("--budget: got \"{}\", expected {}", text, error.what()));
  }
}

std::optional<std::string> take_override(std::vector<std::string>& overrides,
                                         const std::string& field) {
  const std::string key = field + "=";
  std::optional<std::string> value;
  std::erase_if(overrides, [&](const std::string& text) {
    if (!text.starts_with(key)) return false;
    value = text.substr(key.size());
    return true;
  });
  return value;
}

CLI::Validator is_one_of(const std::vector<std::string>& names) {
  const auto refusal = [names](const std::string& got) {
    if (std::ranges::find(names, got) != names.end()) return std::string();
    return fmt::format("got {}, expected {}", got, one_of_names(got, names));
  };
  return CLI::Validator(refusal, fmt::format("{{{}}}", fmt::join(names, ",")));
}

void add_session_options(CLI::App& command, session::RunOptions& options) {
  command.add_option("--out", options.out, "Directory for the results");
  command.add_option("--launcher", options.launcher, "auto, or none: ignore torchrun and its like")
      ->check(is_one_of({"auto", "none"}));
  command.add_option("--ranks-per-node", options.ranks_per_node,
                     "Ranks that each task starts, where a launcher starts one task per node");
  command.add_option("--join-timeout", options.join_timeout_s,
                     "Seconds until every task of a launcher must have joined");
  command.add_option("--interface", options.interface,
                     "Network interface of this host for its ranks, under a launcher");
  command.add_flag("--force", options.force, "Replace the run in --out");
  command.add_flag("--quiet", options.quiet, "Only errors on stderr");
}

}  // namespace gradsync::cli
