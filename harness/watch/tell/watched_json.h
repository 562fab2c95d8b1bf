// A watched job as JSON, of schema gradsync.watch/1, and back.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "harness/watch/judge/watched.h"

namespace gradsync::watch {

inline constexpr const char* kWatchSchema = "gradsync.watch/1";

// Returns the object of the schema. What is not known is null.
nlohmann::json watch_json(const Watched& watched);

// Returns what watch_json made `value` of. `file`: what errors call it.   Errors: ConfigError with
// file and field for anything that watch_json would not write; only what was added to the schema
// later may be missing.
Watched watched_from_json(const nlohmann::json& value, const std::string& file);

}  // namespace gradsync::watch
