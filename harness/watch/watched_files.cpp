#include "harness/watch/watched_files.h"

#include <fmt/format.h>

#include <filesystem>

#include "harness/base/errors.h"
#include "harness/base/json_fields.h"
#include "harness/watch/comparison.h"
#include "harness/watch/events/read_events.h"
#include "harness/watch/html_page.h"
#include "harness/watch/trace.h"

namespace gradsync::watch {
namespace {

std::string trace_of(const std::string& path) {
  if (!watch::is_watched_folder(path)) {
    throw ConfigError(fmt::format(
        "--format trace: got {}, which has no events, expected the folder of gradsync watch --keep",
        path));
  }
  return watch::watch_trace(watch::read_folder(path).ranks).dump() + "\n";
}

}  // namespace

bool is_watched_job(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) || watch::is_watched_folder(path);
}

watch::Watched read_watched_job(const std::string& path) {
  if (watch::is_watched_folder(path)) {
    watch::Watched watched = watch::summarize(watch::read_folder(path).ranks);
    watched.account = watch::account_in(path);
    return watched;
  }
  return watch::watched_from_json(read_json_file(path), path);
}

std::string watched_job_as(const std::string& path, const std::string& format) {
  if (format == "markdown") return watch::watch_page(read_watched_job(path));
  if (format == "html") return watch::watch_html(read_watched_job(path), path);
  if (format == "json") return watch::watch_json(read_watched_job(path)).dump(1) + "\n";
  if (format == "csv") return watch::watch_csv(read_watched_job(path));
  if (format == "trace") return trace_of(path);
  throw ConfigError(
      fmt::format("--format {}: got the watched job {}, expected a run's directory: of a watched "
                  "job there are markdown, html, json, csv and trace",
                  format, path));
}

std::string compared_jobs(const std::string& a, const std::string& b) {
  return watch::watch_comparison({a, read_watched_job(a)}, {b, read_watched_job(b)});
}

}  // namespace gradsync::watch
