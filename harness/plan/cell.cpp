#include "harness/plan/cell.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "harness/base/json_fields.h"
#include "harness/plan/combinations.h"

namespace gradsync::plan {

using nlohmann::json;

namespace {

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
    if (std::ranges::find(seen, cell) != seen.end()) {
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
    if (std::ranges::find(unique, cell) == unique.end()) unique.push_back(cell);
  }
  return unique;
}

void refuse(const Misfit& misfit, const JsonFields& fields) {
  fields.fail(misfit.axis, misfit.expected, misfit.got);
}

// DDP's options are in every cell since the first results.
bool is_written(const Axis& axis, const std::string& wrapper, const json& value) {
  if (axis.is_written_if_any) return value != 0;
  return axis.wrapper != "fsdp" || wrapper == "fsdp";
}

}  // namespace

bool share_a_workload(const Cell& a, const Cell& b) {
  Cell same = a;
  same.strategy = b.strategy;
  same.accumulation_steps = b.accumulation_steps;
  same.memory_budget_bytes = b.memory_budget_bytes;
  return same == b;
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

json default_of(const Axis& axis) {
  return axis.get(Cell{});
}

nlohmann::ordered_json list_schema(const Axis& axis) {
  nlohmann::ordered_json schema{{"description", axis.help},
                                {"type", "array"},
                                {"minItems", 1},
                                {"uniqueItems", true},
                                {"items", axis.schema},
                                {"default", json::array({default_of(axis)})}};
  if (axis.trades_memory) schema["lever"] = true;
  if (axis.is_work) schema["work"] = true;
  if (axis.wrapper == "fsdp") schema["only_under"] = axis.wrapper;
  if (axis.is_written_if_any) schema["left_out"] = true;
  return schema;
}

json whole_cell(json written) {
  if (!written.contains("micro_batch_size")) return written;
  const std::string wrapper = written.value("wrapper", "");
  for (const Axis& axis : axes()) {
    json value = default_of(axis);
    if (written.contains(axis.name) || !is_written(axis, wrapper, value)) continue;
    written[axis.name] = std::move(value);
  }
  return written;
}

void to_json(json& out, const Cell& cell) {
  out = json::object();
  for (const Axis& axis : axes()) {
    json value = axis.get(cell);
    if (is_written(axis, cell.wrapper, value)) out[axis.name] = std::move(value);
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
