// gradsync predict step: how long other steps of a watched job would take, and what they would
// communicate. Steps of a model on any machine are in predict_elsewhere.cpp.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>
#include <set>

#include "benchmarks/commands/commands.h"
#include "benchmarks/commands/plan_options.h"
#include "benchmarks/commands/predict_elsewhere.h"
#include "benchmarks/commands/predict_traced.h"
#include "benchmarks/commands/step_models.h"
#include "harness/text/labels.h"
#include "harness/text/text_table.h"
#include "harness/text/text_width.h"
#include "harness/watch/tell/watched_fields.h"
#include "harness/watch/tell/watched_files.h"

namespace gradsync::cli {
namespace {

using nlohmann::json;
using watch::TypicalStep;

constexpr int kMostAccumulation = 1'000'000;
constexpr int kMostNodes = 1'000'000;
// What a watched step does not show.
constexpr const char* kNotPredicted =
    "Not predicted: another link, number of ranks or size of a micro-batch, and memory. Compute "
    "and wire are assumed not to slow each other down.";

struct WatchedOptions {
  std::string job;
  std::vector<int> accumulation_steps;
  bool as_json = false;
};

struct Row {
  int micro_batches = 0;
  int synchronized = 0;
  bool is_measured = false;
  watch::OpSums collectives;
  std::optional<double> step_s;
};

// Errors: ConfigError if what was seen is not enough to predict a step.
TypicalStep divided_step(const std::string& job) {
  const watch::Watched watched = watch::read_watched_job(job);
  std::string why = "no optimizer step was seen";
  if (watched.typical) {
    if (watched.typical->parts) return *watched.typical;
    why = watched.typical->parts.why_not();
    if (why.empty()) why = "it was written before parts were";
  }
  throw ConfigError(
      fmt::format("{}: field 'per_step.parts': this step cannot be predicted: {}", job, why));
}

// Returns the watched row, and two rows for each number of micro-batches: one of them synchronized,
// and all.
std::vector<Row> rows_of(const TypicalStep& typical, const std::vector<int>& accumulation_steps) {
  std::set<std::pair<int, int>> wanted{{typical.micro_batches, typical.synchronized}};
  std::set<int> counts(accumulation_steps.begin(), accumulation_steps.end());
  counts.insert(typical.micro_batches);
  for (const int count : counts) wanted.insert({{count, 1}, {count, count}});
  std::vector<Row> rows;
  for (const auto& [micro_batches, synchronized] : wanted) {
    rows.push_back({micro_batches, synchronized,
                    micro_batches == typical.micro_batches && synchronized == typical.synchronized,
                    watch::collectives_of(*typical.parts, micro_batches, synchronized),
                    watch::seconds_of(*typical.parts, micro_batches, synchronized)});
  }
  return rows;
}

constexpr auto fields_of(const Row*) {
  return std::tuple{field("accumulation_steps", &Row::micro_batches),
                    GRADSYNC_FIELDS(Row, synchronized, is_measured, collectives, step_s)};
}

std::string seconds_text(const Row& row, int parts) {
  return row.step_s ? fmt::format("{:.3f}", *row.step_s / parts) : "-";
}

void print_rows(const std::vector<Row>& rows) {
  std::set<std::string> ops;
  for (const Row& row : rows) {
    for (const auto& [op, sum] : row.collectives) ops.insert(op);
  }
  std::vector<text::TextTable::Column> columns{
      {"accumulation"}, {"synchronized"}, {"s/step"}, {"s/micro-batch"}};
  for (const std::string& op : ops) columns.push_back({op});
  columns.insert(columns.end(), {{"moved"}, {"", text::Align::Left}});
  text::TextTable table(columns);
  for (const Row& row : rows) {
    std::vector<std::string> words{std::to_string(row.micro_batches),
                                   std::to_string(row.synchronized), seconds_text(row, 1),
                                   seconds_text(row, row.micro_batches)};
    for (const std::string& op : ops) {
      words.push_back(std::to_string(watch::sum_of(row.collectives, op).count));
    }
    words.push_back(watch::bytes_text(watch::total_bytes(row.collectives)));
    words.emplace_back(row.is_measured ? "as watched" : "");
    table.add_row(std::move(words));
  }
  std::cout << table.to_markdown();
}

// "T = 0.005 s + m 0.034 s + s 0.030 s, ..."
std::string law_text(const TypicalStep& typical) {
  const watch::StepParts& parts = *typical.parts;
  if (!watch::seconds_of(parts, 0, 0)) {
    return "Seconds are not known: it was not seen when collectives ended, or the medians of a "
           "step's parts came to more than the step's own.";
  }
  return fmt::format(
      "T = {:.4f} s + m {:.4f} s + s {:.4f} s for a step of m micro-batches, s of them "
      "synchronized: medians of {}.",
      *parts.fixed_s, *parts.micro_batch_s, *parts.synchronization_s,
      text::counted(static_cast<std::size_t>(typical.steps), "step", "steps"));
}

void predict_watched(const WatchedOptions& options) {
  const TypicalStep typical = divided_step(options.job);
  const std::vector<Row> rows = rows_of(typical, options.accumulation_steps);
  if (options.as_json) {
    json list = json::array();
    for (const Row& row : rows) list.push_back(write_fields(row));
    std::cout << list.dump(1) << "\n";
    return;
  }
  print_rows(rows);
  std::cout << "\n"
            << text::wrapped(law_text(typical), 0, text::kTerminalWidth)
            << text::wrapped(kNotPredicted, 0, text::kTerminalWidth);
}

// Throws for options that a watched job cannot answer: only its own steps are known, on the links
// and ranks that it had.
void refuse_elsewhere(const ElsewhereOptions& options) {
  if (options.overrides.empty() && options.nodes.empty() && options.links.empty() &&
      options.profiles.empty()) {
    return;
  }
  throw ConfigError(fmt::format(
      "{}: got {}, expected --accumulation-steps alone: when each gradient of a watched job was "
      "ready is not known. models/record_profile.py records a profile of its model, of which all "
      "that can be asked",
      options.model,
      !options.overrides.empty() ? options.overrides.front()
      : !options.nodes.empty()   ? "--nodes"
      : !options.links.empty()   ? "--links"
                                 : "--profile"));
}

void refuse_beside_trace(const ElsewhereOptions& options) {
  const std::string given = !options.model.empty()      ? options.model
                            : !options.plan.empty()     ? "--plan"
                            : !options.profiles.empty() ? "--profile"
                                                        : "";
  if (given.empty()) return;
  throw ConfigError(fmt::format("--trace: got {} beside it, expected one of them", given));
}

void predict_steps(ElsewhereOptions options, const std::vector<int>& accumulation_steps) {
  if (options.plan.empty() && options.model.empty()) {
    throw ConfigError("predict step: got neither, expected a FILE, --plan or --trace");
  }
  if (!options.plan.empty() || is_model(options.model)) {
    if (!accumulation_steps.empty()) {
      options.overrides.push_back(
          fmt::format("accumulation_steps={}", fmt::join(accumulation_steps, ",")));
    }
    return predict_elsewhere(options);
  }
  if (is_run(options.model)) {
    if (!accumulation_steps.empty()) options.overrides.emplace_back("--accumulation-steps");
    return predict_run(options);
  }
  refuse_elsewhere(options);
  predict_watched({options.model, accumulation_steps, options.as_json});
}

}  // namespace

void add_predict_step_command(CLI::App& predict) {
  CLI::App* command = predict.add_subcommand(
      "step",
      "Seconds of a model's step on other machines, or of a watched job's step, synchronized in "
      "another way");
  auto options = std::make_shared<ElsewhereOptions>();
  auto accumulation_steps = std::make_shared<std::vector<int>>();
  auto traces = std::make_shared<std::vector<std::string>>();
  command->add_option(
      "FILE", options->model,
      "A profile or a model with one; a run's directory; or what gradsync watch --json "
      "wrote, or the folder of its --keep");
  command
      ->add_option("--accumulation-steps", *accumulation_steps,
                   "Numbers of micro-batches in a step: 1,2,8")
      ->delimiter(',')
      ->check(CLI::Range(1, kMostAccumulation));
  command->add_option("--plan", options->plan, "Every cell of a plan; FILE replaces its models");
  add_cell_options(*command, options->overrides, {"topology", "wrapper", "strategy"});
  command->add_option("--nodes", options->nodes, "Numbers of nodes, on the topology's links: 2,4,8")
      ->delimiter(',')
      ->check(CLI::Range(1, kMostNodes));
  command->add_option("--links", options->links,
                      "What links and hosts cost, and how sure that is (gradsync.links/1)");
  command
      ->add_option("--profile", options->profiles,
                   "Seconds of a model that computes, as models/record_profile.py recorded them "
                   "(repeatable)")
      ->type_name("MODEL=FILE");
  command->add_flag("--json", options->as_json, "Print JSON instead of the table");
  command
      ->add_option("--trace", *traces,
                   "Traces of torch.profiler's, one of each rank, of a job under DDP on GPUs: "
                   "predict its step")
      ->type_name("FILE...");
  command->callback([options, accumulation_steps, traces] {
    if (traces->empty()) return predict_steps(*options, *accumulation_steps);
    refuse_beside_trace(*options);
    predict_traced(*traces, *options, *accumulation_steps);
  });
}

}  // namespace gradsync::cli
