// Watched jobs that are over, as other commands are given them: the file of `gradsync watch
// --json`, or the folder of `--keep`. And that file, of schema gradsync.watch/1: written and read.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/watch/judge/watched.h"

namespace gradsync::watch {

// Returns whether `path` is one of the two: any file is taken for the first.
bool is_watched_job(const std::string& path);

// Returns what was seen of the job.   Errors: ConfigError where the file is none of gradsync
// watch's.
Watched read_watched_job(const std::string& path);

// Returns the job in one of the formats of `gradsync report`; `paths`: one, or the folders of all
// its hosts. Errors: ConfigError for those that are of runs alone, for a trace of a file, which has
// no events, and for one of hosts whose clocks could not be compared. As read_watched_job.
std::string watched_job_as(const std::vector<std::string>& paths, const std::string& format);

// Returns the page on two jobs side by side.   Errors: as read_watched_job.
std::string compared_jobs(const std::string& a, const std::string& b);

inline constexpr const char* kWatchSchema = "gradsync.watch/1";

// Returns the object of the schema. What is not known is null.
nlohmann::json watch_json(const Watched& watched);

// Returns what watch_json made `value` of. `file`: what errors call it.   Errors: ConfigError with
// file and field for anything that watch_json would not write; only what was added to the schema
// later may be missing.
Watched watched_from_json(const nlohmann::json& value, const std::string& file);

}  // namespace gradsync::watch
