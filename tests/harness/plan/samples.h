// Made-up plans and the complaints about them, for the tests of harness/plan.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "harness/base/errors.h"
#include "harness/plan/plan.h"

namespace gradsync::plan {

inline nlohmann::json sample_plan() {
  return nlohmann::json::parse(R"({
    "schema": "gradsync.plan/1", "name": "sample",
    "cells": {"topology": ["1x2", "2x1"], "model": ["mlp"],
              "strategy": ["baseline", "no_sync_improper", "no_sync", "accumulate"]},
    "steps": 5, "rounds": 3, "launches": 2, "seed": 42})");
}

inline nlohmann::json sample_plan_in_parts() {
  return nlohmann::json::parse(R"({
    "schema": "gradsync.plan/1", "name": "sample", "steps": 5, "warmup_steps": 4,
    "cells": {"model": ["mlp"], "strategy": ["baseline", "no_sync"]},
    "parts": [
      {"name": "fast", "cells": {"topology": ["1x2"]}},
      {"name": "slow", "about": "over a link", "total_steps": 29, "launches": 4,
       "cells": {"topology": ["2x1"], "model": ["bert_mini"]}}]})");
}

// What the user reads about a wrong plan; "no error" where it is accepted.
inline std::string complaint(const nlohmann::json& source) {
  try {
    parse_plan(source, "p.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace gradsync::plan
