// A plan file changed before it is parsed: by "--set key=value", and where it names other files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gradsync::plan {

// Changes `plan` as `text` ("steps=3", "model=mlp,bert_tiny", "PART.steps=3") says; see read_plan.
// Values are not checked here: parse_plan does that for file and override alike.
// Errors: ConfigError that names the key and those there are.
void apply_override(nlohmann::json& plan, const std::string& text);

// Makes the files of `plan` (topologies and profiles that cells name by NAME.json) relative to the
// working directory; they are relative to its own file, which lies at `path`.
void resolve_files(nlohmann::json& plan, const std::string& path);

// Returns "cells" that belong to no plan: those that the changes `texts` make, with `model` as
// their only model. Errors: ConfigError, as apply_override; it begins with `who` where a change is
// of more than cells.
nlohmann::json overridden_cells(const std::vector<std::string>& texts, const std::string& model,
                                const std::string& who);

}  // namespace gradsync::plan
