// gradsync report: tables and other formats of finished runs and watched jobs, from their files
// alone; and two of a kind side by side.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>

#include "benchmarks/commands/commands.h"
#include "benchmarks/commands/plan_options.h"
#include "harness/report/comparison_page.h"
#include "harness/report/formats.h"
#include "harness/report/html/run_page.h"
#include "harness/report/tables.h"
#include "harness/session/finished_runs.h"
#include "harness/session/paths.h"
#include "harness/summary/run_comparison.h"
#include "harness/watch/read/read_events.h"
#include "harness/watch/tell/watched_files.h"

namespace gradsync::cli {
namespace {

using nlohmann::json;

std::string formatted(const summary::FinishedRun& run, const std::string& format) {
  if (format == "json") return json(run.result).dump(1) + "\n";
  if (format == "csv") return report::result_csv(run.result);
  if (format == "benchmark") return report::benchmark_json(run.result, run.trials).dump(1) + "\n";
  if (format == "attribution") return report::attribution_page(run.result);
  if (format == "html")
    return html::run_page(run.result, session::published_tables(), run.directory);
  if (format == "trace")
    return report::trace_json(run.result.context, run.trials, results::TimelinesFile(run.directory))
               .dump() +
           "\n";
  return report::result_markdown(run.result, session::published_tables(),
                                 {.raw_directory = run.directory});
}

struct ReportOptions {
  std::vector<std::string> directories;
  std::string format = "markdown";
  bool each = false;
  bool compares() const {
    return directories.size() == 2 && !each && (format == "markdown" || format == "json");
  }
};

std::string compared(const std::vector<std::string>& directories, const std::string& format) {
  const summary::RunComparison comparison =
      summary::compare_runs(session::read_run(directories[0]), session::read_run(directories[1]));
  return format == "json" ? json(comparison).dump(1) + "\n"
                          : report::comparison_markdown(comparison);
}

// Errors: ConfigError if the two are not of one kind, or if a format is for runs only.
std::string compared_with_a_job(const std::vector<std::string>& paths, const std::string& format) {
  if (!watch::is_watched_job(paths[0]) || !watch::is_watched_job(paths[1])) {
    throw ConfigError(
        fmt::format("got {} and {}, a run and a watched job, expected two of a kind: --each prints "
                    "them in turn",
                    paths[0], paths[1]));
  }
  if (format != "markdown") {
    throw ConfigError(fmt::format(
        "--format {}: two watched jobs are compared in markdown: --each prints them in turn",
        format));
  }
  return watch::compared_jobs(paths[0], paths[1]);
}

std::string report_on(const ReportOptions& options) {
  const auto& paths = options.directories;
  if (!options.each && watch::are_hosts_of_one_job(paths)) {
    return watch::watched_job_as(paths, options.format);
  }
  if (options.format == "html" && paths.size() > 1) {
    throw ConfigError(fmt::format(
        "--format html: got {} of them, expected one: each has a file of its own", paths.size()));
  }
  if (options.compares()) {
    return std::ranges::any_of(paths, watch::is_watched_job)
               ? compared_with_a_job(paths, options.format)
               : compared(paths, options.format);
  }
  std::string text;
  for (const std::string& path : paths) {
    text += watch::is_watched_job(path) ? watch::watched_job_as({path}, options.format)
                                        : formatted(session::read_run(path), options.format);
  }
  return text;
}

}  // namespace

void add_report_command(CLI::App& app, ExitStatus&) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* command =
      app.add_subcommand("report", "Print finished runs again, in other formats; compare two")
          ->group(kRuns);
  command
      ->add_option(
          "DIR", options->directories,
          "Directories of finished runs; markdown and json compare two. For watched jobs: the "
          "file of gradsync watch --json, or the folder of --keep; folders of one job's hosts "
          "are put together")
      ->required();
  command
      ->add_option("--format", options->format,
                   "markdown, html, csv, json, benchmark, attribution or trace")
      ->check(is_one_of({"markdown", "html", "csv", "json", "benchmark", "attribution", "trace"}));
  command->add_flag("--each", options->each,
                    "Print them in turn instead of comparing two, or putting hosts together");
  command->callback([options] {
    try {
      std::cout << report_on(*options) << std::flush;
    } catch (const json::exception& error) {  // readable, but not as results are
      throw ConfigError(fmt::format("{}: not the results of a run: {}",
                                    fmt::join(options->directories, ", "), error.what()));
    }
  });
}

}  // namespace gradsync::cli
