#include "harness/watch/tell/watched_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "harness/base/errors.h"
#include "harness/base/json_fields.h"
#include "harness/watch/judge/seen_beside.h"
#include "harness/watch/read/account_file.h"
#include "harness/watch/read/read_events.h"
#include "harness/watch/tell/pages.h"
#include "harness/watch/tell/trace.h"

namespace gradsync::watch {
namespace {

std::string trace_of(const std::vector<std::string>& paths) {
  if (!is_watched_folder(paths[0])) {
    throw ConfigError(fmt::format(
        "--format trace: got {}, which has no events, expected the folder of gradsync watch --keep",
        paths[0]));
  }
  const std::vector<RankEvents> ranks = read_hosts(paths);
  if (!ranks.empty() && !ranks[0].gpus_of_paper.empty()) {
    throw ConfigError(
        fmt::format("--format trace: got a job on GPUs of paper ({}), where nothing was timed",
                    ranks[0].gpus_of_paper));
  }
  const auto without_clock = [](const RankEvents& rank) { return !rank.clock_error_ns; };
  if (const auto rank = std::ranges::find_if(ranks, without_clock); rank != ranks.end()) {
    throw ConfigError(fmt::format(
        "--format trace: got hosts whose clocks cannot be compared ({}), expected one folder",
        rank->faults.back()));
  }
  return watch_trace(ranks).dump() + "\n";
}

Watched watched_in(const std::vector<std::string>& paths) {
  if (!is_watched_folder(paths[0])) return watched_from_json(read_json_file(paths[0]), paths[0]);
  const std::vector<RankEvents> ranks = read_hosts(paths);
  Watched watched = summarize(ranks);
  add_account(watched, account_in(paths, seen_beside(ranks, watched.kinds)));
  return watched;
}

}  // namespace

bool is_watched_job(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) || is_watched_folder(path);
}

Watched read_watched_job(const std::string& path) {
  return watched_in({path});
}

std::string watched_job_as(const std::vector<std::string>& paths, const std::string& format) {
  const std::string name = fmt::format("{}", fmt::join(paths, ", "));
  if (format == "markdown") return watch_page(watched_in(paths));
  if (format == "html") return watch_html(watched_in(paths), name);
  if (format == "json") return watch_json(watched_in(paths)).dump(1) + "\n";
  if (format == "csv") return watch_csv(watched_in(paths));
  if (format == "trace") return trace_of(paths);
  throw ConfigError(
      fmt::format("--format {}: got the watched job {}, expected a run's directory: of a watched "
                  "job there are markdown, html, json, csv and trace",
                  format, name));
}

std::string compared_jobs(const std::string& a, const std::string& b) {
  return watch_comparison({a, read_watched_job(a)}, {b, read_watched_job(b)});
}

}  // namespace gradsync::watch
