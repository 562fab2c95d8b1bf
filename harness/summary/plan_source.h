// The facts that reports read from a plan as its file has it, "plan" of a result. Plans of other
// versions have fields of their own, so a missing field is no error.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace gradsync::summary {

// Returns the plan's name; nothing where it has none.
std::optional<std::string> name_of_plan(const nlohmann::json& plan);

// Returns what the plan says about one of its parts; may be empty.
std::string about_part(const nlohmann::json& plan, const std::string& part);

// Returns the plan's own list of values for one parameter of one part; null where it has none.
nlohmann::json listed_values(const nlohmann::json& plan, const std::string& part,
                             const std::string& parameter);

// Returns whether windows hold different numbers of micro-batches, as the guide's did, and rank 0's
// clock counts.
bool is_as_published(const nlohmann::json& plan);

}  // namespace gradsync::summary
