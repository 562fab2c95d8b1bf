#include "harness/report/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <regex>

#include "harness/plan/cell.h"
#include "harness/plan/strategies.h"

namespace gradsync::report {

using nlohmann::json;

namespace {

// "1 Gbit/s", "7.94 Gbit/s", "200 Mbit/s": no digits that the topology file does not have.
std::string rate_text(double bits_per_s) {
  if (bits_per_s >= 1e9) return fmt::format("{:.4g} Gbit/s", bits_per_s / 1e9);
  return fmt::format("{:.4g} Mbit/s", bits_per_s / 1e6);
}

std::string link_text(const json& topology, const char* rate) {
  const bool shaped = topology.contains(rate) && topology[rate].is_number();
  return shaped ? rate_text(topology[rate].get<double>()) : "";
}

std::string shape_text(int nodes, int ranks_per_node) {
  return fmt::format("{} {} x {} {}", nodes, nodes == 1 ? "node" : "nodes", ranks_per_node,
                     ranks_per_node == 1 ? "rank" : "ranks");
}

struct Shape {
  int nodes = 0;
  int ranks_per_node = 0;
};

std::optional<Shape> shape_in(const json& owner) {
  const auto is_number = [&](const char* name) {
    return owner.is_object() && owner.contains(name) && owner[name].is_number_integer();
  };
  if (!is_number("nodes") || !is_number("ranks_per_node")) return std::nullopt;
  return Shape{owner["nodes"].get<int>(), owner["ranks_per_node"].get<int>()};
}

std::optional<Shape> shape_in_name(const std::string& name) {
  static const std::regex pattern("(?:^|_)([0-9]{1,4})x([0-9]{1,4})(?:_|$)");
  std::smatch match;
  if (!std::regex_search(name, match, pattern)) return std::nullopt;
  return Shape{std::stoi(match[1]), std::stoi(match[2])};
}

}  // namespace

std::string strategy_label(const std::string& strategy) {
  const auto& known = plan::strategies();
  const auto entry = std::ranges::find(known, strategy, &plan::StrategyEntry::name);
  return entry == known.end() ? strategy : entry->label;
}

TopologyLabel topology_label(const json& context, const json& result_cell) {
  const std::string name = result_cell["cell"].value("topology", "");
  json topology = json::object();
  if (context.contains("topologies") && context["topologies"].is_object()) {
    topology = context["topologies"].value(name, json::object());
  }
  std::optional<Shape> shape = shape_in(topology);
  if (!shape) shape = shape_in(result_cell);
  if (!shape) shape = shape_in_name(name);
  TopologyLabel label;
  label.shape = shape ? shape_text(shape->nodes, shape->ranks_per_node) : name;
  label.nodes = shape ? shape->nodes : 0;
  label.ranks_per_node = shape ? shape->ranks_per_node : 0;
  label.links =
      link_text(topology, label.nodes > 1 ? "inter_node_bits_per_s" : "intra_node_bits_per_s");
  return label;
}

std::string sharding_label(const json& cell) {
  if (cell.value("wrapper", "") != "fsdp") return "DDP";
  return cell.value("reshard_after_forward", true) ? "FULL_SHARD" : "SHARD_GRAD_OP";
}

bool is_on_the_road(const json& cell) {
  const std::string wrapper = cell.value("wrapper", "");
  const auto& known = plan::wrappers();
  const auto entry = std::ranges::find(known, wrapper, &plan::WrapperEntry::name);
  return entry != known.end() && entry->on_the_road;
}

std::optional<OomPlace> oom_place(const json& result_cell) {
  static const std::regex pattern("micro-batch ([0-9]{1,9}), ([a-z]+)");
  const std::string reason = result_cell.value("reason", "");
  std::smatch match;
  if (!std::regex_search(reason, match, pattern)) return std::nullopt;
  return OomPlace{match[2], std::stoi(match[1])};
}

std::string seconds_text(const json& value, int decimals) {
  return value.is_number() ? fmt::format("{:.{}f}", value.get<double>(), decimals) : "-";
}

std::string ratio_text(const json& comparison) {
  if (!comparison.is_object()) return "-";
  std::string ratio = fmt::format("{:.2f}x", comparison["ratio"].get<double>());
  const json& ci95 = comparison["ci95"];
  if (!ci95.is_array()) return ratio;
  return fmt::format("{} [{:.2f}, {:.2f}]", ratio, ci95[0].get<double>(), ci95[1].get<double>());
}

bool told_apart(const json& comparison) {
  const json& ci95 = comparison["ci95"];
  return ci95.is_array() && (ci95[0].get<double>() > 1 || ci95[1].get<double>() < 1);
}

std::string launches_that_ran(const json& comparison) {
  const auto launches = comparison["launches"].get<std::size_t>();
  return launches == 1 ? "the one launch that ran"
                       : fmt::format("the {} launches that ran", launches);
}

int decimals_for(const std::vector<json>& result_cells) {
  int decimals = 3;
  for (const json& cell : result_cells) {
    if (!cell["step_s"].is_object()) continue;
    const double mean = cell["step_s"]["mean"].get<double>();
    if (mean > 0) decimals = std::max(decimals, 2 - static_cast<int>(std::floor(std::log10(mean))));
  }
  return std::min(decimals, 6);
}

std::string plain_text(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string parameter_text(const json& cell, const std::string& name) {
  return plain_text(plan::with_defaults(cell).value(name, json()));
}

std::string counted(std::size_t count, const std::string& singular, const std::string& plural) {
  return fmt::format("{} {}", count, count == 1 ? singular : plural);
}

}  // namespace gradsync::report
