// "--set key=value": a plan file changed on the command line.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace gradsync::plan {

// Changes `plan` as `text` ("steps=3", "model=mlp,bert_tiny", "PART.steps=3") says; see read_plan.
// Values are not checked here: parse_plan does that for file and override alike.
// Errors: ConfigError that names the key and those there are.
void apply_override(nlohmann::json& plan, const std::string& text);

}  // namespace gradsync::plan
