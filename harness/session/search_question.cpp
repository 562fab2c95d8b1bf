#include "harness/session/search_question.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

#include "harness/base/errors.h"
#include "harness/base/named.h"
#include "harness/plan/cell.h"
#include "harness/text/labels.h"

namespace gradsync::session {
namespace {

using nlohmann::json;
using plan::Wanted;

constexpr const char* kBudget = "memory_budget_bytes";
constexpr std::array kLargest = {"accumulation_steps", "micro_batch_size", "sequence_length"};

const plan::Axis& axis_named(const std::string& name) {
  const plan::Axis* axis = entry_named(plan::axes(), name);
  GRADSYNC_CHECK(axis == nullptr, ==, false);
  return *axis;
}

void check_axis(const SearchOptions& options) {
  if (options.largest.empty() == options.smallest.empty()) {
    throw ConfigError(
        fmt::format("search: got {} --largest and --smallest, expected one of them with the name "
                    "of an axis, as in --largest accumulation_steps, or --fastest",
                    options.largest.empty() ? "neither of" : "both"));
  }
  const bool known = options.largest.empty()
                         ? options.smallest == kBudget
                         : std::ranges::find(kLargest, options.largest) != kLargest.end();
  if (known) return;
  throw ConfigError(fmt::format("search: got {} {}, expected --largest {}, or --smallest {}",
                                options.largest.empty() ? "--smallest" : "--largest",
                                options.largest + options.smallest,
                                fmt::join(kLargest, " or --largest "), kBudget));
}

// An end as the plan reader takes a value of the axis: a number, or a size with its unit.
std::int64_t read_end(const std::string& flag, const std::string& text, const std::string& axis) {
  json value = json::parse(text, nullptr, false);
  if (value.is_discarded()) value = text;
  plan::Cell cell;
  try {
    axis_named(axis).set(cell, value);
  } catch (const std::invalid_argument& error) {
    throw ConfigError(fmt::format("{}: got {}, expected {}", flag, text, error.what()));
  }
  const std::int64_t end = value_of(cell, axis);
  if (end < 1) throw ConfigError(fmt::format("{}: got {}, expected at least 1", flag, text));
  return end;
}

// --set of `field` in all parts or in one.
bool sets(const std::string& override_text, const std::string& field) {
  const std::string key = override_text.substr(0, override_text.find('='));
  return key == field || key.ends_with("." + field);
}

void check_counts(const plan::Plan& plan) {
  for (const plan::Part& part : plan.parts) {
    for (const auto& [field, count] :
         {std::pair{"launches", part.launches}, {"rounds", part.rounds}}) {
      if (count == 1) continue;
      throw ConfigError(plan.file, field, std::to_string(count),
                        "1: a value is tried in one launch of one round");
    }
  }
}

// Without a budget it is the machine's memory that would overflow, and others' work with it.
void check_limits(const plan::Plan& plan) {
  if (plan.device != "cpu") return;
  for (const plan::Part& part : plan.parts) {
    for (const plan::Cell& cell : part.cells) {
      if (cell.memory_budget_bytes > 0) continue;
      throw ConfigError(plan.file, std::string("cells.") + kBudget, "none",
                        "what the trials are to fit into, as in --set memory_budget_bytes=2GiB");
    }
  }
}

}  // namespace

SearchQuestion read_question(const SearchOptions& options) {
  check_axis(options);
  SearchQuestion question;
  question.wanted = options.largest.empty() ? Wanted::Smallest : Wanted::Largest;
  question.axis = options.largest + options.smallest;
  question.checks = options.checks;
  if (!options.from.empty()) question.from = read_end("--from", options.from, question.axis);
  if (!options.to.empty()) question.to = read_end("--to", options.to, question.axis);
  if (!question.to && question.wanted == Wanted::Largest) {
    throw ConfigError(fmt::format(
        "search: --to is missing, expected the largest {} to try, as in --to 64", question.axis));
  }
  if (question.to && *question.to <= question.from) {
    throw ConfigError(fmt::format("--to: got {}, expected more than --from, which is {}",
                                  *question.to, question.from));
  }
  return question;
}

plan::Plan plan_of(const SearchQuestion& question, RunOptions options) {
  for (const std::string& text : options.overrides) {
    if (!sets(text, question.axis)) continue;
    throw ConfigError(fmt::format("--set {}: {} is what is searched, give --from and --to instead",
                                  text, question.axis));
  }
  const std::vector<std::string> small{"launches=1", "rounds=1", "steps=2", "warmup_steps=1"};
  options.overrides.insert(options.overrides.begin(), small.begin(), small.end());
  options.overrides.push_back(fmt::format("{}={}", question.axis, question.from));
  plan::Plan plan = checked_plan(options);
  check_counts(plan);
  if (question.wanted == Wanted::Largest) check_limits(plan);
  return plan;
}

plan::Plan plan_of_race(const SearchOptions& options) {
  for (const auto& [flag, text] : {std::pair{"--largest", options.largest},
                                   {"--smallest", options.smallest},
                                   {"--from", options.from},
                                   {"--to", options.to}}) {
    if (text.empty()) continue;
    throw ConfigError(
        fmt::format("search: got --fastest and {} {}, expected one of them", flag, text));
  }
  plan::Plan plan = checked_plan(options.run);
  for (const plan::Part& part : plan.parts) {
    if (!part.timed) {
      throw ConfigError(plan.file, "timed", "false", "true: what is fastest its times decide");
    }
    for (const plan::Cell& cell : part.cells) {
      if (!text::is_on_the_road(json(cell))) continue;
      throw ConfigError(plan.file, "cells.wrapper", cell.wrapper,
                        "ddp or fsdp: ways that lead to DDP do other work");
    }
  }
  check_limits(plan);
  return plan;
}

std::int64_t value_of(const plan::Cell& cell, const std::string& axis) {
  return json(cell).value(axis, std::int64_t{0});  // a budget of 0 is left out
}

plan::Cell with_value(plan::Cell cell, const std::string& axis, std::int64_t value) {
  axis_named(axis).set(cell, value);
  return cell;
}

}  // namespace gradsync::session
