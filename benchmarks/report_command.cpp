// gradsync report: tables and other formats of finished runs, from their files alone; and two runs
// side by side.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>

#include "benchmarks/commands.h"
#include "benchmarks/finished_runs.h"
#include "benchmarks/published_tables.h"
#include "harness/report/attribution_table.h"
#include "harness/report/benchmark_json.h"
#include "harness/report/comparison_page.h"
#include "harness/report/csv.h"
#include "harness/report/markdown.h"
#include "harness/report/run_comparison.h"
#include "harness/report/trace.h"

namespace gradsync::cli {
namespace {

using nlohmann::json;

std::string formatted(const report::FinishedRun& run, const std::string& format) {
  if (format == "json") return run.result.dump(1) + "\n";
  if (format == "csv") return report::result_csv(run.result);
  if (format == "benchmark") return report::benchmark_json(run.result, run.trials).dump(1) + "\n";
  if (format == "attribution") return report::attribution_page(run.result);
  if (format == "trace") return report::trace_json(run.result["context"], run.trials).dump() + "\n";
  return report::result_markdown(run.result, published_tables(), {.raw_directory = run.directory});
}

struct Options {
  std::vector<std::string> directories;
  std::string format = "markdown";
  bool each = false;
  bool compares() const {
    return directories.size() == 2 && !each && (format == "markdown" || format == "json");
  }
};

std::string compared(const std::vector<std::string>& directories, const std::string& format) {
  const json comparison = report::compare_runs(read_run(directories[0]), read_run(directories[1]));
  return format == "json" ? comparison.dump(1) + "\n" : report::comparison_markdown(comparison);
}

std::string report_on(const Options& options) {
  if (options.compares()) return compared(options.directories, options.format);
  std::string text;
  for (const std::string& directory : options.directories) {
    text += formatted(read_run(directory), options.format);
  }
  return text;
}

}  // namespace

void add_report_command(CLI::App& app, ExitStatus&) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("report", "Print finished runs again, in other formats; compare two");
  command
      ->add_option("DIR", options->directories,
                   "Directories of finished runs; of two, markdown and json compare")
      ->required();
  command
      ->add_option("--format", options->format,
                   "markdown, csv, json, benchmark, attribution or trace")
      ->check(CLI::IsMember({"markdown", "csv", "json", "benchmark", "attribution", "trace"}));
  command->add_flag("--each", options->each, "Print two runs in turn instead of comparing them");
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
