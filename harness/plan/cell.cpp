#include "harness/plan/cell.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "harness/base/errors.h"
#include "harness/base/json_fields.h"
#include "harness/plan/axis_kinds.h"
#include "harness/plan/combinations.h"
#include "harness/plan/strategies.h"

namespace gradsync::plan {

using nlohmann::json;

namespace {

template <typename Entry>
std::vector<std::string> names_of(const std::vector<Entry>& entries) {
  std::vector<std::string> names;
  for (const Entry& entry : entries) names.push_back(entry.name);
  return names;
}

const std::vector<std::string> kDtypes{"float32", "bfloat16"};

const std::vector<std::string> kKept{"none", "attention", "matmul"};

const std::vector<std::string> kLoraModules{"query_value", "attention", "all_linear"};

const std::vector<std::string> kOffloads{"none", "optimizer_state", "parameters"};

std::vector<Axis> make_axes() {
  return {name("topology", &Cell::topology),
          name("model", &Cell::model),
          one_of("wrapper", &Cell::wrapper, names_of(wrappers())).lever(),
          count("micro_batch_size", &Cell::micro_batch_size),
          count("sequence_length", &Cell::sequence_length),
          one_of("lengths", &Cell::lengths, {"fixed", "mrpc"}),
          size("bucket_cap_bytes", &Cell::bucket_cap_bytes, "DDP's default", "25MiB").under("ddp"),
          flag("gradient_as_bucket_view", &Cell::gradient_as_bucket_view).under("ddp").lever(),
          flag("find_unused_parameters", &Cell::find_unused_parameters).under("ddp"),
          flag("static_graph", &Cell::static_graph).under("ddp"),
          one_of("compression", &Cell::compression, {"none", "fp16", "bf16"}).later().under("ddp"),
          every_nth("activation_checkpointing", &Cell::activation_checkpointing).later().lever(),
          one_of("selective_checkpointing", &Cell::selective_checkpointing, kKept).later().lever(),
          count_from_zero("frozen_units", &Cell::frozen_units).later(),
          count_from_zero("lora_rank", &Cell::lora_rank).later(),
          one_of("lora_modules", &Cell::lora_modules, kLoraModules).later(),
          one_of("attention", &Cell::attention, {"eager", "sdpa"}).later().lever(),
          one_of("offload", &Cell::offload, kOffloads).later().lever(),
          flag("fused_optimizer", &Cell::fused_optimizer).later(),
          flag("broadcast_buffers", &Cell::broadcast_buffers).later().under("ddp"),
          flag("sync_batch_norm", &Cell::sync_batch_norm).later(),
          flag("class_skew", &Cell::class_skew).later(),
          count("scale", &Cell::scale),
          one_of("dtype", &Cell::dtype, kDtypes).later(),
          one_of("autocast", &Cell::autocast, {"none", "bfloat16"}).later().under("ddp"),
          flag("master_weights", &Cell::master_weights).later().under("ddp"),
          flag("balanced_routing", &Cell::balanced_routing).later(),
          one_of("param_dtype", &Cell::param_dtype, kDtypes).under("fsdp"),
          one_of("reduce_dtype", &Cell::reduce_dtype, kDtypes).under("fsdp"),
          one_of("gradient_dtype", &Cell::gradient_dtype, {"reduce", "param"}).under("fsdp"),
          flag("optimizer_in_backward", &Cell::optimizer_in_backward).later().under("fsdp").lever(),
          flag("hybrid_shard", &Cell::hybrid_shard).under("fsdp").lever(),
          flag("prefetch", &Cell::prefetch).under("fsdp").lever(),
          flag("reshard_after_backward", &Cell::reshard_after_backward).under("fsdp").lever(),
          flag("reshard_after_forward", &Cell::reshard_after_forward).under("fsdp").lever(),
          size("memory_budget_bytes", &Cell::memory_budget_bytes, "no budget", "79GiB").if_any(),
          count("accumulation_steps", &Cell::accumulation_steps),
          one_of("strategy", &Cell::strategy, names_of(strategies())).lever()};
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
  for (const Axis& axis : axes()) {
    if (!axis.wrapper.empty() && axis.wrapper != cell.wrapper) axis.set(cell, axis.get(defaults));
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
  for (const Cell& cell : cells) {
    if (std::find(unique.begin(), unique.end(), cell) == unique.end()) unique.push_back(cell);
  }
  return unique;
}

void refuse(const Misfit& misfit, const JsonFields& fields) {
  fields.fail(misfit.axis, misfit.expected, misfit.got);
}

// Fields that the first results did not have, with the values that every cell had then.
json later_fields() {
  json fields = json::object();
  for (const Axis& axis : axes()) {
    if (axis.written == Axis::Written::Later) fields[axis.name] = axis.get(Cell{});
  }
  return fields;
}

bool is_written(const Axis& axis, const Cell& cell, const json& value) {
  if (axis.written == Axis::Written::Later) return value != unwritten_fields()[axis.name];
  if (axis.written == Axis::Written::IfAny) return value != 0;
  return axis.wrapper != "fsdp" || cell.wrapper == "fsdp";
}

}  // namespace

bool share_a_workload(const Cell& a, const Cell& b) {
  Cell same = a;
  same.strategy = b.strategy;
  same.accumulation_steps = b.accumulation_steps;
  same.memory_budget_bytes = b.memory_budget_bytes;
  return same == b;
}

Axis Axis::later() const {
  Axis changed = *this;
  changed.written = Written::Later;
  return changed;
}

Axis Axis::if_any() const {
  Axis changed = *this;
  changed.written = Written::IfAny;
  return changed;
}

Axis Axis::under(const std::string& its_wrapper) const {
  Axis changed = *this;
  changed.wrapper = its_wrapper;
  return changed;
}

Axis Axis::lever() const {
  Axis changed = *this;
  changed.trades_memory = true;
  return changed;
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
    settle_dtypes(fields, cell);
    drop_foreign_options(cell);
  }
  product = each_once(product);
  if (const auto misfit = drop_misfits(product)) refuse(*misfit, fields);
  return product;
}

const json& unwritten_fields() {
  static const json fields = later_fields();
  return fields;
}

json with_defaults(const json& cell) {
  json whole = unwritten_fields();
  whole.update(cell);
  return whole;
}

void to_json(json& out, const Cell& cell) {
  out = json::object();
  for (const Axis& axis : axes()) {
    json value = axis.get(cell);
    if (is_written(axis, cell, value)) out[axis.name] = std::move(value);
  }
}

Cell cell_from_json(const json& in, const std::string& file) {
  JsonFields fields(in, file, "cell.");
  Cell cell;
  for (const Axis& axis : axes()) {
    const json& value = fields.raw(axis.name, false);
    if (fields.has(axis.name)) set(axis, cell, value, fields);
  }
  fields.finish();
  if (const auto misfit = misfit_of(cell)) refuse(*misfit, fields);
  return cell;
}

}  // namespace gradsync::plan
