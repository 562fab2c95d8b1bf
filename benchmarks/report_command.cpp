// gradsync report: tables and other formats of finished runs, from their files alone.
#include <fmt/format.h>

#include <iostream>

#include "benchmarks/commands.h"
#include "benchmarks/paths.h"
#include "harness/base/json_fields.h"
#include "harness/base/log.h"
#include "harness/report/benchmark_json.h"
#include "harness/report/csv.h"
#include "harness/report/markdown.h"
#include "harness/report/result.h"
#include "harness/report/trace.h"
#include "harness/results/store.h"

namespace gradsync::cli {
namespace {

using nlohmann::json;

struct Run {
  std::vector<results::TrialRecord> trials;
  json result;
};

// Summaries are made again from the trials: they may be newer than result.json after a crash.
Run read_run(const std::string& directory) {
  Run run;
  const json stored = results::read_result(directory);
  std::string warning;
  run.trials = results::read_trials(directory, &warning);
  if (!warning.empty()) log::warn(warning);
  run.result = report::build_result(stored.at("context"), stored.at("plan"), run.trials);
  run.result["exit_status"] = stored.value("exit_status", json(nullptr));
  return run;
}

std::string formatted(const Run& run, const std::string& directory, const std::string& format) {
  if (format == "json") return run.result.dump(1) + "\n";
  if (format == "csv") return report::result_csv(run.result);
  if (format == "benchmark") return report::benchmark_json(run.result, run.trials).dump(1) + "\n";
  if (format == "trace") return report::trace_json(run.trials).dump() + "\n";
  return report::result_markdown(run.result, read_json_file(reference_file()),
                                 {.raw_directory = directory});
}

}  // namespace

void add_report_command(CLI::App& app, ExitStatus&) {
  struct Options {
    std::vector<std::string> directories;
    std::string format = "markdown";
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("report", "Print finished runs again, in other formats");
  command->add_option("DIR", options->directories, "Directories of finished runs")->required();
  command->add_option("--format", options->format, "markdown, csv, json, benchmark or trace")
      ->check(CLI::IsMember({"markdown", "csv", "json", "benchmark", "trace"}));
  command->callback([options] {
    for (const std::string& directory : options->directories) {
      std::cout << formatted(read_run(directory), directory, options->format);
    }
  });
}

}  // namespace gradsync::cli
