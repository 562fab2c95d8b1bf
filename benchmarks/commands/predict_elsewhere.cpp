#include "benchmarks/commands/predict_elsewhere.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <iostream>
#include <optional>

#include "benchmarks/commands/cell_columns.h"
#include "benchmarks/commands/step_models.h"
#include "harness/base/errors.h"
#include "harness/base/fields.h"
#include "harness/base/json_fields.h"
#include "harness/base/log.h"
#include "harness/plan/cell.h"
#include "harness/plan/known_options.h"
#include "harness/plan/overrides.h"
#include "harness/predict/link_file.h"
#include "harness/results/store.h"
#include "harness/session/finished_runs.h"
#include "harness/session/paths.h"
#include "harness/text/text_table.h"
#include "harness/text/text_width.h"

namespace gradsync::predict {

GRADSYNC_FIELDS_OF(PathParts, compute_s, wire_s, latency_s, host_s)
GRADSYNC_FIELDS_OF(Gain, change, saved_s)

}  // namespace gradsync::predict

namespace gradsync::cli {
namespace {

using nlohmann::json;
using predict::LinkFile;
using predict::StepModel;

constexpr double kOfHundred = 100;

struct StepRow {
  plan::Cell cell;
  int nodes = 0;
  int world_size = 0;
  std::optional<double> step_s;  // nothing: `unknown_because` says why
  std::optional<std::vector<double>> interval90_s;
  std::optional<double> compute_s;
  std::optional<double> exposed_s;
  std::optional<predict::PathParts> critical_path;
  std::string limit;
  std::vector<predict::Gain> gains;
  std::string unknown_because;
  std::optional<double> measured_step_s;  // of a run's cells

  std::optional<double> error() const {
    if (!step_s || !measured_step_s) return std::nullopt;
    return *step_s / *measured_step_s - 1;
  }
};

constexpr auto fields_of(const StepRow*) {
  return std::tuple{
      GRADSYNC_FIELDS(StepRow, cell, nodes, world_size, step_s, interval90_s, compute_s, exposed_s,
                      critical_path, limit, gains, unknown_because),
      field("measured_step_s", &StepRow::measured_step_s).spared()};
}

std::vector<plan::Cell> cells_of(const ElsewhereOptions& options) {
  const std::string who = "predict step";
  if (options.plan.empty()) {
    return plan::multiply_out(plan::overridden_cells(options.overrides, options.model, who), who,
                              "cells.");
  }
  std::vector<std::string> overrides = options.overrides;
  if (!options.model.empty()) overrides.push_back("model=" + json(options.model).dump());
  std::vector<plan::Cell> cells;
  const std::string file = plan::resolve_plan(options.plan, session::plans_directory());
  for (const plan::Part& part : plan::read_plan(file, overrides).parts) {
    cells.insert(cells.end(), part.cells.begin(), part.cells.end());
  }
  return cells;
}

StepRow row_of(const plan::Cell& cell, const launch::Topology& topology, const LinkFile& links,
               StepModels& models) {
  StepRow row;
  row.cell = cell;
  row.nodes = topology.nodes;
  row.world_size = topology.world_size();
  const Known<StepModel>& model = models.find(cell);
  row.unknown_because = model ? predict::why_not_predicted(cell, topology) : model.why_not();
  if (!row.unknown_because.empty()) return row;
  predict::StepOptions options = predict::options_of(cell);
  options.rank_spread = links.rank_spread;
  const predict::Prediction of = predict::predict_step(
      *model, predict::network_of(topology, links.constants), options, links.doubt);
  row.step_s = of.step_s;
  row.interval90_s = {of.interval90.lo, of.interval90.hi};
  row.compute_s = of.compute_s;
  row.exposed_s = of.exposed_s;
  row.critical_path = of.path;
  row.limit = of.limit;
  row.gains = of.gains;
  return row;
}

// Returns each cell on its topology, or on that topology with each number of `nodes`.
std::vector<StepRow> rows_of(const ElsewhereOptions& options, const LinkFile& links) {
  StepModels models(options.profiles);
  const std::vector<plan::Cell> cells = cells_of(options);
  plan::refuse_unknown(options.overrides, cells, plan::Prediction::Step, "predict step");
  std::vector<StepRow> rows;
  for (const plan::Cell& cell : cells) {
    for (const launch::Topology& topology :
         topologies_of(cell.topology, cell.scale, options.nodes)) {
      rows.push_back(row_of(cell, topology, links, models));
    }
  }
  models.refuse_unused();
  return rows;
}

// Rates are those of the line, divided by the cell's scale.
launch::Topology topology_of(const plan::Cell& cell, const results::Context& context) {
  launch::Topology topology;
  topology.name = cell.topology;
  const auto shape = context.topologies.find(cell.topology);
  if (shape == context.topologies.end()) return topology;
  topology.nodes = shape->second.nodes.value_or(1);
  topology.ranks_per_node = shape->second.ranks_per_node.value_or(1);
  const auto scaled = [&cell](const std::optional<double>& rate) {
    return rate ? std::optional(*rate / cell.scale) : std::nullopt;
  };
  topology.inter_node_bits_per_s = scaled(shape->second.inter_node_bits_per_s);
  topology.intra_node_bits_per_s = scaled(shape->second.intra_node_bits_per_s);
  return topology;
}

std::vector<StepRow> rows_of_run(const std::string& directory, const LinkFile& links,
                                 const std::vector<std::string>& profiles = {}) {
  const summary::FinishedRun run = session::read_run(directory);
  StepModels models(profiles);
  std::vector<StepRow> rows;
  for (const results::CellResult& measured : run.result.cells) {
    if (!measured.is_timed()) continue;
    const plan::Cell cell = plan::cell_from_json(measured.cell.written(), directory);
    StepRow row = row_of(cell, topology_of(cell, run.result.context), links, models);
    row.measured_step_s = measured.step_s->mean;
    rows.push_back(std::move(row));
  }
  models.refuse_unused();
  return rows;
}

// Throws if the model was named on the command line and its times are not known. A plan may hold
// models without times.
void refuse_unknown_model(const ElsewhereOptions& options, const std::vector<StepRow>& rows) {
  for (const StepRow& row : rows) {
    if (!options.plan.empty() || row.step_s) return;
  }
  throw ConfigError(fmt::format("{}: its step cannot be predicted: {}", options.model,
                                rows.front().unknown_because));
}

std::vector<std::string> other_axes(const std::vector<StepRow>& rows) {
  std::vector<plan::Cell> cells;
  for (const StepRow& row : rows) cells.push_back(row.cell);
  return varying_axes(cells, {"wrapper", "strategy", "accumulation_steps"});
}

void print_steps(const std::vector<StepRow>& rows) {
  const std::vector<std::string> varying = other_axes(rows);
  std::vector<text::TextTable::Column> columns;
  for (const std::string& axis : varying) columns.push_back({axis, text::Align::Left});
  columns.insert(columns.end(), {{"wrapper", text::Align::Left},
                                 {"strategy", text::Align::Left},
                                 {"accumulation"},
                                 {"ranks"},
                                 {"s/step"},
                                 {"90 % interval"},
                                 {"exposed"},
                                 {"bottleneck", text::Align::Left}});
  const bool has_measured = rows.front().measured_step_s.has_value();
  if (has_measured) columns.insert(columns.end(), {{"measured"}, {"error"}});
  text::TextTable table(columns);
  for (const StepRow& row : rows) {
    std::vector<std::string> words;
    for (const std::string& axis : varying) words.push_back(axis_text(row.cell, axis));
    words.insert(words.end(),
                 {row.cell.wrapper, row.cell.strategy, std::to_string(row.cell.accumulation_steps),
                  std::to_string(row.world_size)});
    if (row.step_s) {
      const std::vector<double>& ends = *row.interval90_s;
      words.insert(words.end(), {fmt::format("{:.3f}", *row.step_s),
                                 fmt::format("[{:.3f}, {:.3f}]", ends[0], ends[1]),
                                 fmt::format("{:.3f} s", *row.exposed_s), row.limit});
    } else {
      words.insert(words.end(), {"not predicted", "", "", row.unknown_because});
    }
    if (has_measured) words.push_back(fmt::format("{:.3f}", *row.measured_step_s));
    if (row.error()) words.push_back(fmt::format("{:+.1f} %", kOfHundred * *row.error()));
    table.add_row(std::move(words));
  }
  std::cout << table.to_markdown();
}

std::string interval_text(const LinkFile& links) {
  const std::string stands_on =
      links.source.empty() ? "these are assumed; --links takes measured ones" : links.source;
  return fmt::format(
      "The interval covers compute that is {:g} %, rates that are {:g} %, the host's costs and "
      "latencies that are {:g} % and pauses of gathers that are {:g} % off (1 sd; {}), and not a "
      "machine that works in another way.",
      kOfHundred * links.doubt.compute, kOfHundred * links.doubt.rate,
      kOfHundred * links.doubt.host, kOfHundred * links.doubt.pause, stands_on);
}

void print_table(const std::vector<StepRow>& rows, const LinkFile& links) {
  print_steps(rows);
  std::cout << "\n" << text::wrapped(interval_text(links), 0, text::kTerminalWidth);
}

// Prints, for a single row, what a change would save.
void print_gains(const StepRow& row) {
  std::vector<std::string> words;
  for (const predict::Gain& gain : row.gains) {
    words.push_back(fmt::format("{}: {:+.3f} s", gain.change, -gain.saved_s));
  }
  std::cout << text::wrapped(
      fmt::format("What a change would do to a step: {}.", fmt::join(words, "; ")), 0,
      text::kTerminalWidth);
}

void print_rows(const std::vector<StepRow>& rows, const LinkFile& links, bool as_json) {
  if (as_json) {
    json list = json::array();
    for (const StepRow& row : rows) list.push_back(write_fields(row));
    std::cout << list.dump(1) << "\n";
    return;
  }
  print_table(rows, links);
  if (rows.size() == 1) print_gains(rows.front());
}

}  // namespace

std::vector<launch::Topology> topologies_of(const std::string& name, int scale,
                                            const std::vector<int>& nodes) {
  std::vector<launch::Topology> found{
      launch::read_topology(name, session::topologies_directory(), scale)};
  if (nodes.empty()) return found;
  found.resize(nodes.size(), found.front());
  for (std::size_t i = 0; i < nodes.size(); ++i) found[i].nodes = nodes[i];
  return found;
}

bool is_run(const std::string& name) {
  return std::filesystem::is_regular_file(std::filesystem::path(name) / results::kResultFile);
}

void predict_run(const ElsewhereOptions& options) {
  if (!options.overrides.empty() || !options.nodes.empty()) {
    throw ConfigError(fmt::format("{}: got {}, expected --links alone: its cells are what it ran",
                                  options.model,
                                  options.overrides.empty() ? "--nodes" : options.overrides[0]));
  }
  const LinkFile links = predict::read_link_file(options.links);
  const std::vector<StepRow> rows = rows_of_run(options.model, links, options.profiles);
  if (rows.empty()) throw ConfigError(options.model + ": got no cell with times, expected one");
  print_rows(rows, links, options.as_json);
}

void print_beside(const std::string& directory, const std::string& links_file) {
  const LinkFile links = predict::read_link_file(links_file);
  const std::vector<StepRow> rows = rows_of_run(directory, links);
  if (rows.empty()) return log::info("no cell has times to hold a prediction against");
  std::cout << "\nPredicted, and measured beside it:\n\n";
  print_table(rows, links);
}

void predict_elsewhere(const ElsewhereOptions& options) {
  const LinkFile links = predict::read_link_file(options.links);
  const std::vector<StepRow> rows = rows_of(options, links);
  refuse_unknown_model(options, rows);
  print_rows(rows, links, options.as_json);
}

}  // namespace gradsync::cli
