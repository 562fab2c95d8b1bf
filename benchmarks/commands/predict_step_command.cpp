// gradsync predict step: what other steps of a watched job would take and communicate.
#include <fmt/format.h>

#include <iostream>
#include <set>

#include "benchmarks/commands/commands.h"
#include "harness/text/labels.h"
#include "harness/text/text_table.h"
#include "harness/text/text_width.h"
#include "harness/watch/watched_files.h"

namespace gradsync::cli {
namespace {

using nlohmann::json;
using watch::TypicalStep;

constexpr int kMostAccumulation = 1'000'000;
constexpr std::size_t kWidth = 80;
// What a watched step cannot tell.
constexpr const char* kNotPredicted =
    "Not predicted: another link, number of ranks or size of a micro-batch, and memory. Compute "
    "and wire are taken not to slow each other down.";

struct StepOptions {
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

// Errors: ConfigError where nothing follows from what was seen.
TypicalStep divided_step(const std::string& job) {
  const watch::Watched watched = watch::read_watched_job(job);
  std::string why = "no optimizer step was seen";
  if (watched.typical) {
    if (watched.typical->parts) return *watched.typical;
    why = watched.typical->no_parts_because.empty() ? "it was written before parts were"
                                                    : watched.typical->no_parts_because;
  }
  throw ConfigError(fmt::format(
      "{}: field 'per_step.parts': nothing can be predicted of this step: {}", job, why));
}

// Every accumulation with a synchronization in each micro-batch, and with one.
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

json to_json(const Row& row) {
  return {{"accumulation_steps", row.micro_batches},
          {"synchronized", row.synchronized},
          {"is_measured", row.is_measured},
          {"collectives", watch::to_json(row.collectives)},
          {"step_s", row.step_s ? json(*row.step_s) : json()}};
}

// A part of the step's seconds, as many of which make all.
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

void predict_steps(const StepOptions& options) {
  const TypicalStep typical = divided_step(options.job);
  const std::vector<Row> rows = rows_of(typical, options.accumulation_steps);
  if (options.as_json) {
    json list = json::array();
    for (const Row& row : rows) list.push_back(to_json(row));
    std::cout << list.dump(1) << "\n";
    return;
  }
  print_rows(rows);
  std::cout << "\n"
            << text::wrapped(law_text(typical), 0, kWidth)
            << text::wrapped(kNotPredicted, 0, kWidth);
}

}  // namespace

void add_predict_step_command(CLI::App& predict) {
  CLI::App* command = predict.add_subcommand(
      "step",
      "Seconds and collectives of a watched job's step, synchronized or accumulated otherwise");
  auto options = std::make_shared<StepOptions>();
  command
      ->add_option("FILE", options->job,
                   "What gradsync watch --json wrote, or the folder of its --keep")
      ->required();
  command
      ->add_option("--accumulation-steps", options->accumulation_steps,
                   "Other numbers of micro-batches in a step: 1,2,8")
      ->delimiter(',')
      ->check(CLI::Range(1, kMostAccumulation));
  command->add_flag("--json", options->as_json, "Print JSON instead of the table");
  command->callback([options] { predict_steps(*options); });
}

}  // namespace gradsync::cli
