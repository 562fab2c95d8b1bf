#include "benchmarks/commands/predict_traced.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "harness/base/errors.h"
#include "harness/base/fields.h"
#include "harness/base/units.h"
#include "harness/plan/cell.h"
#include "harness/plan/overrides.h"
#include "harness/predict/link_file.h"
#include "harness/predict/link_fit.h"
#include "harness/predict/traced_model.h"
#include "harness/text/labels.h"
#include "harness/text/text_table.h"
#include "harness/text/text_width.h"
#include "harness/watch/read/foreign/kineto.h"

namespace gradsync::cli {
namespace {

using predict::FittedLink;
using predict::LinkFile;
using predict::Network;
using predict::TracedModel;

constexpr double kPercent = 100;
constexpr std::string_view kTopology = "topology=";

// Where a step is predicted. The links of the traces are not known by a topology's name.
struct Place {
  std::string topology;  // "": as traced
  Network network;
  predict::Doubt doubt;
};

struct TracedRow {
  std::string topology;
  int ranks = 0;
  int micro_batches = 0;
  int synchronized = 0;
  double step_s = 0;
  std::vector<double> interval90_s;
  double exposed_s = 0;
  std::string limit;
  std::optional<double> measured_step_s;
};

constexpr auto fields_of(const TracedRow*) {
  return std::tuple{
      field("topology", &TracedRow::topology), field("world_size", &TracedRow::ranks),
      field("accumulation_steps", &TracedRow::micro_batches),
      GRADSYNC_FIELDS(TracedRow, synchronized, step_s, interval90_s, exposed_s, limit),
      field("measured_step_s", &TracedRow::measured_step_s).spared()};
}

// The links that the traces' own collectives ran on, all ranks on one node as far as they say.
Place traced_place(const FittedLink& link, int ranks) {
  Place place;
  place.network.nodes = 1;
  place.network.ranks_per_node = ranks;
  place.network.intra = predict::Link{link.bytes_per_s, link.latency_s, 0};
  place.network.host.collective_s = link.collective_s;
  place.doubt = LinkFile{}.doubt;
  place.doubt.rate = link.rate_doubt.value_or(place.doubt.rate);
  place.doubt.host = link.host_doubt.value_or(place.doubt.host);
  return place;
}

std::vector<std::string> topologies_named(const ElsewhereOptions& options) {
  for (const std::string& each : options.overrides) {
    if (!each.starts_with(kTopology)) {
      throw ConfigError(fmt::format(
          "--trace: got {}, expected --accumulation-steps, --topology, --nodes or --links: a trace "
          "holds the buckets that were reduced, and no others",
          each));
    }
  }
  std::vector<std::string> names;
  if (options.overrides.empty()) return names;
  const std::string who = "--trace";
  for (const plan::Cell& cell :
       plan::multiply_out(plan::overridden_cells(options.overrides, "trace", who), who, "cells.")) {
    names.push_back(cell.topology);
  }
  return names;
}

std::vector<Place> places_of(const ElsewhereOptions& options) {
  std::vector<Place> places;
  const LinkFile links = predict::read_link_file(options.links);
  for (const std::string& name : topologies_named(options)) {
    for (const launch::Topology& topology : topologies_of(name, 1, options.nodes)) {
      places.push_back({name, predict::network_of(topology, links.constants), links.doubt});
    }
  }
  if (places.empty() && (!options.nodes.empty() || !options.links.empty())) {
    throw ConfigError(
        fmt::format("--trace: got {}, expected --topology with it: the traces do not "
                    "say which ranks share a node",
                    options.nodes.empty() ? "--links" : "--nodes"));
  }
  return places;
}

// Its micro-batches, and how many of them synchronize.
std::pair<int, int> pattern_of(const TracedModel& traced) {
  return {static_cast<int>(traced.options.syncs.size()),
          static_cast<int>(std::ranges::count(traced.options.syncs, true))};
}

TracedRow traced_row(const TracedModel& traced, const Place& place, int micro_batches,
                     int synchronized) {
  predict::StepOptions options = traced.options;
  if (std::pair(micro_batches, synchronized) != pattern_of(traced)) {
    options.syncs.assign(static_cast<std::size_t>(micro_batches), synchronized == micro_batches);
    options.syncs.back() = true;
  }
  const predict::Prediction of =
      predict::predict_step(traced.model, place.network, options, place.doubt);
  TracedRow row;
  row.topology = place.topology.empty() ? "as traced" : place.topology;
  row.ranks = place.network.world_size();
  row.micro_batches = micro_batches;
  row.synchronized = synchronized;
  row.step_s = of.step_s;
  row.interval90_s = {of.interval90.lo, of.interval90.hi};
  row.exposed_s = of.exposed_s;
  row.limit = of.limit;
  return row;
}

std::vector<TracedRow> traced_rows(const TracedModel& traced, const std::vector<Place>& places,
                                   const std::vector<int>& accumulation_steps) {
  const auto own = pattern_of(traced);
  std::set<std::pair<int, int>> wanted{{own.first, 1}, own};
  for (const int count : accumulation_steps) wanted.insert({{count, 1}, {count, count}});
  std::vector<TracedRow> rows;
  for (const Place& place : places) {
    for (const auto& [micro_batches, synchronized] : wanted) {
      rows.push_back(traced_row(traced, place, micro_batches, synchronized));
      if (place.topology.empty() && std::pair(micro_batches, synchronized) == own) {
        rows.back().measured_step_s = traced.step_s;
      }
    }
  }
  return rows;
}

void print_traced(const std::vector<TracedRow>& rows) {
  text::TextTable table({{"topology", text::Align::Left},
                         {"ranks"},
                         {"accumulation"},
                         {"synchronized"},
                         {"s/step"},
                         {"90 % interval"},
                         {"exposed"},
                         {"traced"},
                         {"error"}});
  for (const TracedRow& row : rows) {
    std::vector<std::string> words{
        row.topology,
        std::to_string(row.ranks),
        std::to_string(row.micro_batches),
        std::to_string(row.synchronized),
        fmt::format("{:.4f}", row.step_s),
        fmt::format("[{:.4f}, {:.4f}]", row.interval90_s[0], row.interval90_s[1]),
        fmt::format("{:.4f} s", row.exposed_s)};
    if (row.measured_step_s) {
      words.push_back(fmt::format("{:.4f}", *row.measured_step_s));
      words.push_back(fmt::format("{:+.1f} %", kPercent * (row.step_s / *row.measured_step_s - 1)));
    }
    table.add_row(std::move(words));
  }
  std::cout << table.to_markdown();
}

std::string traced_link_text(const TracedModel& traced, const FittedLink& link) {
  return fmt::format(
      "The traces hold {} of {} buckets. Their collectives fit a link of {} between ranks, and "
      "{:.0f} us for each collective, within {:.0f} %.",
      text::counted(static_cast<std::size_t>(traced.steps), "step", "steps"),
      traced.model.layers.size() - 1, format_rate(8 * link.bytes_per_s), 1e6 * link.collective_s,
      kPercent * link.error_rms);
}

}  // namespace

void predict_traced(const std::vector<std::string>& traces, const ElsewhereOptions& options,
                    const std::vector<int>& accumulation_steps) {
  std::vector<Place> places = places_of(options);
  const TracedModel traced = predict::traced_model(watch::read_foreign_job(traces));
  const FittedLink link = predict::fit_link(traced.collectives);
  places.insert(places.begin(), traced_place(link, traced.ranks));
  const std::vector<TracedRow> rows = traced_rows(traced, places, accumulation_steps);
  if (options.as_json) {
    nlohmann::json list = nlohmann::json::array();
    for (const TracedRow& row : rows) list.push_back(write_fields(row));
    std::cout << list.dump(1) << "\n";
    return;
  }
  print_traced(rows);
  std::cout << "\n" << text::wrapped(traced_link_text(traced, link), 0, text::kTerminalWidth);
}

}  // namespace gradsync::cli
