// The fields of a plan file: the rows by which the parser reads them, and --set knows them.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "harness/base/json_fields.h"
#include "harness/plan/plan.h"

namespace gradsync::plan {

// Counts, and one flag, that a plan and each of its parts may have; a part's own value wins.
inline constexpr std::array kSharedFields = {
    "steps", "total_steps", "warmup_steps", "distance_steps", "rounds", "launches", "timed"};

// The fields that say what a plan consists of; all others are conditions.
inline constexpr std::array kStructure = {"name", "about", "parts"};

// A field that only the plan has: under which conditions its cells run. A new one is its member of
// Plan, its row in conditions.cpp, and where it acts.
struct Condition {
  std::string name;
  // Takes the field, or its default, into the plan. Errors: ConfigError.
  std::function<void(JsonFields&, Plan&)> read;
};

const std::vector<Condition>& conditions();

}  // namespace gradsync::plan
