#include "harness/plan/cell.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <stdexcept>

#include "harness/base/errors.h"
#include "harness/base/json_fields.h"
#include "harness/base/units.h"
#include "harness/plan/strategies.h"

namespace gradsync::plan {

using nlohmann::json;

namespace {

using Setter = std::function<void(Cell&, const json&)>;

Setter name(std::string Cell::*field) {
  return [field](Cell& cell, const json& value) {
    if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
      throw std::invalid_argument("a name");
    }
    cell.*field = value.get<std::string>();
  };
}

Setter one_of(std::string Cell::*field, std::vector<std::string> allowed) {
  return [field, allowed = std::move(allowed)](Cell& cell, const json& value) {
    if (std::find(allowed.begin(), allowed.end(), value) == allowed.end()) {
      throw std::invalid_argument(fmt::format("one of {}", fmt::join(allowed, ", ")));
    }
    cell.*field = value.get<std::string>();
  };
}

Setter count(int Cell::*field) {
  return [field](Cell& cell, const json& value) {
    if (!value.is_number_integer() || value < 1 || value > kLargestCount) {
      throw std::invalid_argument(fmt::format("an integer from 1 to {}", kLargestCount));
    }
    cell.*field = value.get<int>();
  };
}

Setter flag(bool Cell::*field) {
  return [field](Cell& cell, const json& value) {
    if (!value.is_boolean()) throw std::invalid_argument("true or false");
    cell.*field = value.get<bool>();
  };
}

Setter size(std::int64_t Cell::*field, const std::string& zero, const std::string& example) {
  return [=](Cell& cell, const json& value) { cell.*field = size_from_json(value, zero, example); };
}

template <typename Entry>
std::vector<std::string> names_of(const std::vector<Entry>& entries) {
  std::vector<std::string> names;
  for (const Entry& entry : entries) names.push_back(entry.name);
  return names;
}

const std::vector<std::string> kDtypes{"float32", "bfloat16"};

std::vector<Axis> make_axes() {
  return {{"topology", name(&Cell::topology)},
          {"model", name(&Cell::model)},
          {"wrapper", one_of(&Cell::wrapper, names_of(wrappers()))},
          {"micro_batch_size", count(&Cell::micro_batch_size)},
          {"sequence_length", count(&Cell::sequence_length)},
          {"lengths", one_of(&Cell::lengths, {"fixed", "mrpc"})},
          {"bucket_cap_bytes", size(&Cell::bucket_cap_bytes, "DDP's default", "25MiB")},
          {"gradient_as_bucket_view", flag(&Cell::gradient_as_bucket_view)},
          {"find_unused_parameters", flag(&Cell::find_unused_parameters)},
          {"static_graph", flag(&Cell::static_graph)},
          {"compression", one_of(&Cell::compression, {"none", "fp16", "bf16"})},
          {"fused_optimizer", flag(&Cell::fused_optimizer)},
          {"broadcast_buffers", flag(&Cell::broadcast_buffers)},
          {"sync_batch_norm", flag(&Cell::sync_batch_norm)},
          {"class_skew", flag(&Cell::class_skew)},
          {"scale", count(&Cell::scale)},
          {"dtype", one_of(&Cell::dtype, kDtypes)},
          {"balanced_routing", flag(&Cell::balanced_routing)},
          {"param_dtype", one_of(&Cell::param_dtype, kDtypes)},
          {"reduce_dtype", one_of(&Cell::reduce_dtype, kDtypes)},
          {"gradient_dtype", one_of(&Cell::gradient_dtype, {"reduce", "param"})},
          {"hybrid_shard", flag(&Cell::hybrid_shard)},
          {"prefetch", flag(&Cell::prefetch)},
          {"reshard_after_backward", flag(&Cell::reshard_after_backward)},
          {"reshard_after_forward", flag(&Cell::reshard_after_forward)},
          {"memory_budget_bytes", size(&Cell::memory_budget_bytes, "no budget", "79GiB")},
          {"accumulation_steps", count(&Cell::accumulation_steps)},
          {"strategy", one_of(&Cell::strategy, names_of(strategies()))}};
}

void set(const Axis& axis, Cell& cell, const json& value, const JsonFields& fields) {
  try {
    axis.set(cell, value);
  } catch (const std::invalid_argument& error) {
    fields.fail(axis.name, error.what(), value.dump());
  }
}

// Cells that differ in one axis alone, a value of `list` each.
std::vector<Cell> multiply(const std::vector<Cell>& cells, const Axis& axis, const json& list,
                           const JsonFields& fields) {
  std::vector<Cell> seen;
  for (const json& value : list) {
    Cell cell;
    set(axis, cell, value, fields);
    if (std::find(seen.begin(), seen.end(), cell) != seen.end()) {
      fields.fail(axis.name, "each value once", fmt::format("{} twice", value.dump()));
    }
    seen.push_back(cell);
  }
  std::vector<Cell> product;
  for (Cell cell : cells) {
    for (const json& value : list) {
      set(axis, cell, value, fields);
      product.push_back(cell);
    }
  }
  return product;
}

// Options that mean nothing under a cell's wrapper have their defaults, so that a plan may list
// both wrappers and the options of one.
void drop_foreign_options(Cell& cell) {
  const Cell defaults;
  if (cell.wrapper != "fsdp") {
    cell.param_dtype = defaults.param_dtype;
    cell.reduce_dtype = defaults.reduce_dtype;
    cell.gradient_dtype = defaults.gradient_dtype;
    cell.hybrid_shard = defaults.hybrid_shard;
    cell.prefetch = defaults.prefetch;
    cell.reshard_after_backward = defaults.reshard_after_backward;
    cell.reshard_after_forward = defaults.reshard_after_forward;
  }
  if (cell.wrapper != "ddp") {
    cell.bucket_cap_bytes = defaults.bucket_cap_bytes;
    cell.gradient_as_bucket_view = defaults.gradient_as_bucket_view;
    cell.find_unused_parameters = defaults.find_unused_parameters;
    cell.static_graph = defaults.static_graph;
    cell.compression = defaults.compression;
    cell.broadcast_buffers = defaults.broadcast_buffers;
  }
}

// Parameters are gathered, and gradients reduced, as they are stored, unless the plan says else.
void settle_dtypes(const JsonFields& fields, Cell& cell) {
  if (!fields.has("param_dtype")) cell.param_dtype = cell.dtype;
  if (!fields.has("reduce_dtype")) cell.reduce_dtype = cell.dtype;
}

// The same cells, each once, in the order of their first appearance.
std::vector<Cell> each_once(const std::vector<Cell>& cells) {
  std::vector<Cell> unique;
  for (Cell cell : cells) {
    drop_foreign_options(cell);
    if (std::find(unique.begin(), unique.end(), cell) == unique.end()) unique.push_back(cell);
  }
  return unique;
}

void check_combination(const Cell& cell, const JsonFields& fields) {
  const auto allowed = strategies_under(cell.wrapper);
  if (std::find(allowed.begin(), allowed.end(), cell.strategy) == allowed.end()) {
    fields.fail("strategy",
                fmt::format("{} under wrapper {}", fmt::join(allowed, ", "), cell.wrapper),
                json(cell.strategy).dump());
  }
  if (cell.wrapper == "pipeline" && cell.lengths != "fixed") {
    fields.fail("lengths", "fixed under wrapper pipeline", json(cell.lengths).dump());
  }
  if (cell.wrapper == "ddp" && cell.dtype != "float32" && cell.compression != "none") {
    fields.fail("compression", "none where dtype is " + cell.dtype + ", which has 2 bytes already",
                fmt::format("\"{}\"", cell.compression));
  }
  if (cell.sync_batch_norm && cell.wrapper != "ddp") {
    fields.fail("sync_batch_norm", "false under wrapper " + cell.wrapper, "true");
  }
}

// Fields of a cell that the first results did not have.
json later_fields(const Cell& cell) {
  return {{"dtype", cell.dtype},
          {"balanced_routing", cell.balanced_routing},
          {"compression", cell.compression},
          {"fused_optimizer", cell.fused_optimizer},
          {"class_skew", cell.class_skew},
          {"broadcast_buffers", cell.broadcast_buffers},
          {"sync_batch_norm", cell.sync_batch_norm}};
}

}  // namespace

bool share_a_workload(const Cell& a, const Cell& b) {
  Cell same = a;
  same.strategy = b.strategy;
  same.accumulation_steps = b.accumulation_steps;
  same.memory_budget_bytes = b.memory_budget_bytes;
  return same == b;
}

std::int64_t size_from_json(const json& value, const std::string& zero,
                            const std::string& example) {
  if (value.is_string()) return parse_size_bytes(value.get_ref<const std::string&>());
  if (value.is_number_integer() && value.get<std::int64_t>() >= 0) return value;
  throw std::invalid_argument(
      fmt::format("a number of bytes, 0 for {}, or a text like \"{}\"", zero, example));
}

const std::vector<Axis>& axes() {
  static const std::vector<Axis> table = make_axes();
  return table;
}

std::vector<Cell> multiply_out(const json& cells, const std::string& file,
                               const std::string& path) {
  JsonFields fields(cells, file, path);
  std::vector<Cell> product{Cell{}};
  for (const Axis& axis : axes()) {
    const json& list = fields.raw(axis.name, false);
    if (!fields.has(axis.name)) continue;
    if (!list.is_array() || list.empty()) fields.fail(axis.name, "a list with at least one value");
    if (list.size() * product.size() > kLargestCount) {
      fields.fail(axis.name, fmt::format("lists that make at most {} cells", kLargestCount));
    }
    product = multiply(product, axis, list, fields);
  }
  fields.finish();
  for (Cell& cell : product) {
    check_combination(cell, fields);
    settle_dtypes(fields, cell);
  }
  return each_once(product);
}

const json& unwritten_fields() {
  static const json fields = later_fields(Cell{});
  return fields;
}

json with_defaults(const json& cell) {
  json whole = unwritten_fields();
  whole.update(cell);
  return whole;
}

void to_json(json& out, const Cell& cell) {
  out = {{"topology", cell.topology},
         {"model", cell.model},
         {"wrapper", cell.wrapper},
         {"strategy", cell.strategy},
         {"accumulation_steps", cell.accumulation_steps},
         {"micro_batch_size", cell.micro_batch_size},
         {"sequence_length", cell.sequence_length},
         {"lengths", cell.lengths},
         {"bucket_cap_bytes", cell.bucket_cap_bytes},
         {"gradient_as_bucket_view", cell.gradient_as_bucket_view},
         {"find_unused_parameters", cell.find_unused_parameters},
         {"static_graph", cell.static_graph},
         {"scale", cell.scale}};
  const json later = later_fields(cell);
  for (const auto& [field, value] : later.items()) {
    if (value != unwritten_fields()[field]) out[field] = value;
  }
  if (cell.memory_budget_bytes > 0) out["memory_budget_bytes"] = cell.memory_budget_bytes;
  if (cell.wrapper != "fsdp") return;
  out.update({{"reshard_after_forward", cell.reshard_after_forward},
              {"reshard_after_backward", cell.reshard_after_backward},
              {"param_dtype", cell.param_dtype},
              {"reduce_dtype", cell.reduce_dtype},
              {"gradient_dtype", cell.gradient_dtype},
              {"prefetch", cell.prefetch},
              {"hybrid_shard", cell.hybrid_shard}});
}

Cell cell_from_json(const json& in, const std::string& file) {
  JsonFields fields(in, file, "cell.");
  Cell cell;
  for (const Axis& axis : axes()) {
    const json& value = fields.raw(axis.name, false);
    if (fields.has(axis.name)) set(axis, cell, value, fields);
  }
  fields.finish();
  check_combination(cell, fields);
  return cell;
}

}  // namespace gradsync::plan
