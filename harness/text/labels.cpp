#include "harness/text/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <regex>
#include <set>

#include "harness/base/named.h"
#include "harness/base/units.h"
#include "harness/plan/cell.h"
#include "harness/plan/strategies.h"

namespace gradsync::text {

using nlohmann::json;
using results::CellResult;
using results::Parameters;

namespace {

// "1 Gbit/s", "7.94 Gbit/s", "200 Mbit/s": no digits that the topology file does not have.
std::string rate_text(double bits_per_s) {
  if (bits_per_s >= 1e9) return fmt::format("{:.4g} Gbit/s", bits_per_s / 1e9);
  return fmt::format("{:.4g} Mbit/s", bits_per_s / 1e6);
}

std::string shape_text(int nodes, int ranks_per_node) {
  return fmt::format("{} {} x {} {}", nodes, nodes == 1 ? "node" : "nodes", ranks_per_node,
                     ranks_per_node == 1 ? "rank" : "ranks");
}

Shape shape_in(const std::optional<int>& nodes, const std::optional<int>& ranks_per_node) {
  return nodes && ranks_per_node ? Shape{*nodes, *ranks_per_node} : Shape{};
}

Shape shape_in_name(const std::string& name) {
  static const std::regex pattern("(?:^|_)([0-9]{1,4})x([0-9]{1,4})(?:_|$)");
  std::smatch match;
  if (!std::regex_search(name, match, pattern)) return {};
  return {std::stoi(match[1]), std::stoi(match[2])};
}

Shape first_known(std::initializer_list<Shape> shapes) {
  for (const Shape& shape : shapes) {
    if (shape.nodes > 0) return shape;
  }
  return {};
}

std::vector<const Parameters*> that_can_have(const std::string& name,
                                             const std::vector<const Parameters*>& cells) {
  const plan::Axis* axis = entry_named(plan::axes(), name);
  const std::string wrapper = axis == nullptr ? "" : axis->wrapper;
  std::vector<const Parameters*> own;
  std::ranges::copy_if(cells, std::back_inserter(own), [&](const Parameters* cell) {
    return wrapper.empty() || cell->wrapper() == wrapper;
  });
  return own;
}

bool differs(const std::string& name, const std::vector<const Parameters*>& cells) {
  return std::ranges::any_of(cells, [&](const Parameters* cell) {
    return cell->value(name) != cells.front()->value(name);
  });
}

}  // namespace

std::string strategy_label(const std::string& strategy) {
  const plan::StrategyEntry* entry = entry_named(plan::strategies(), strategy);
  return entry == nullptr ? strategy : entry->label;
}

TopologyLabel topology_label(const results::Context& context, const std::string& name,
                             const Shape& ran_on) {
  const auto found = context.topologies.find(name);
  const results::TopologyShape file =
      found == context.topologies.end() ? results::TopologyShape{} : found->second;
  const Shape shape =
      first_known({shape_in(file.nodes, file.ranks_per_node), ran_on, shape_in_name(name)});
  const auto& rate = shape.nodes > 1 ? file.inter_node_bits_per_s : file.intra_node_bits_per_s;
  return {.shape = shape.nodes > 0 ? shape_text(shape.nodes, shape.ranks_per_node) : name,
          .links = rate ? rate_text(*rate) : "",
          .nodes = shape.nodes,
          .ranks_per_node = shape.ranks_per_node};
}

TopologyLabel topology_label(const results::Context& context, const CellResult& cell) {
  return topology_label(context, cell.cell.topology(), shape_in(cell.nodes, cell.ranks_per_node));
}

std::string sharding_label(const Parameters& cell) {
  if (cell.wrapper() != "fsdp") return "DDP";
  return cell.reshard_after_forward() ? "FULL_SHARD" : "SHARD_GRAD_OP";
}

bool is_on_the_road(const Parameters& cell) {
  const plan::WrapperEntry* entry = entry_named(plan::wrappers(), cell.wrapper());
  return entry != nullptr && entry->on_the_road;
}

std::string seconds_text(double seconds, int decimals) {
  return fmt::format("{:.{}f}", seconds, decimals);
}

std::string ratio_text(const results::Ratio& ratio) {
  std::string text = fmt::format("{:.2f}x", ratio.ratio);
  if (!ratio.ci95) return text;
  return fmt::format("{} [{:.2f}, {:.2f}]", text, ratio.ci95->lo, ratio.ci95->hi);
}

std::string launches_that_ran(std::size_t launches) {
  return launches == 1 ? "the one launch that ran"
                       : fmt::format("the {} launches that ran", launches);
}

int decimals_for(const std::vector<double>& means_s) {
  int decimals = 3;
  for (const double mean : means_s) {
    if (mean > 0) decimals = std::max(decimals, 2 - static_cast<int>(std::floor(std::log10(mean))));
  }
  return std::min(decimals, 6);
}

std::string plain_text(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string parameter_text(const Parameters& cell, const std::string& name) {
  const json value = cell.value(name);
  return value.is_null() ? "-" : plain_text(value);
}

std::string bytes_text(std::int64_t bytes) {
  return format_bytes(static_cast<double>(bytes));
}

std::string counted(std::size_t count, const std::string& singular, const std::string& plural) {
  return fmt::format("{} {}", count, count == 1 ? singular : plural);
}

using results::Parameters;

std::vector<std::string> varying_names(const std::vector<const Parameters*>& cells) {
  std::set<std::string> names;
  for (const Parameters* cell : cells) {
    for (std::string& name : cell->names()) names.insert(std::move(name));
  }
  for (const char* told_apart : {"topology", "strategy"}) names.erase(told_apart);
  std::vector<std::string> varying;
  std::ranges::copy_if(names, std::back_inserter(varying), [&](const std::string& name) {
    return differs(name, that_can_have(name, cells));
  });
  return varying;
}

}  // namespace gradsync::text
