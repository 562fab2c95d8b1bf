#include "harness/plan/combinations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "harness/base/named.h"
#include "harness/plan/known_options.h"
#include "harness/plan/strategies.h"

namespace gradsync::plan {

using nlohmann::json;

namespace {

using Value = std::pair<std::string, std::string>;  // of an axis, as JSON

std::set<Value> levers_of(const Cell& cell) {
  std::set<Value> values;
  for (const Axis& axis : axes()) {
    if (axis.trades_memory) values.emplace(axis.name, axis.get(cell).dump());
  }
  return values;
}

bool is_lever(const std::string& axis) {
  return entry_named(axes(), axis)->trades_memory;
}

std::string of_cell(const std::string& sentence, const Cell& cell) {
  return fmt::format(fmt::runtime(sentence), fmt::arg("wrapper", cell.wrapper),
                     fmt::arg("strategy", cell.strategy), fmt::arg("lora_rank", cell.lora_rank),
                     fmt::arg("accumulation_steps", cell.accumulation_steps),
                     fmt::arg("strategies", fmt::join(strategies_under(cell.wrapper), ", ")));
}

std::string most(const Axis& axis, const models::Allowance& allowed) {
  Cell cell;
  if (axis.number) cell.*axis.number = static_cast<int>(allowed.most);
  const json value = axis.get(cell);
  return (value == default_of(axis) ? "" : "at most ") + value.dump();
}

}  // namespace

std::optional<Misfit> misfit_of(const Cell& cell) {
  for (const Axis& axis : axes()) {
    if (!axis.wrapper.empty() && axis.wrapper != cell.wrapper) continue;
    for (const auto& [clashes, expected] : axis.clashes) {
      if (!clashes(cell) || axis.get(cell) == default_of(axis)) continue;
      return Misfit{axis.name, of_cell(expected, cell), axis.get(cell).dump()};
    }
  }
  return {};
}

std::optional<Misfit> misfit_of(const Cell& cell, models::ModelDescription model) {
  // Scaled, it does not hold what was recorded.
  model.replays_memory = model.replays_memory && cell.scale == 1;
  const auto misfit = [&](const std::string& axis, const json& value, const std::string& expected,
                          const std::string& because) {
    return Misfit{axis, because.empty() ? expected : expected + ": " + because,
                  fmt::format("{} for model '{}'", value.dump(), cell.model)};
  };
  for (const Axis& axis : axes()) {
    if (axis.ability == nullptr) continue;
    const json value = axis.get(cell);
    const models::Allowance allowed = (model.*axis.ability)();
    const std::int64_t amount = axis.number ? cell.*axis.number : value != default_of(axis);
    if (amount > allowed.most) {
      return misfit(axis.name, value, most(axis, allowed), allowed.because);
    }
  }
  if (model.compute == models::Compute::Real) return {};
  const auto unknown = unknown_option(cell, Prediction::Pace);
  if (!unknown) return {};
  return misfit(unknown->option, unknown->value, unknown->usual.dump(),
                unknown->because.empty() ? "a paced model does not re-enact it" : unknown->because);
}

std::optional<Misfit> drop_misfits(std::vector<Cell>& cells) {
  std::set<Value> in_use;
  for (const Cell& cell : cells) {
    if (!misfit_of(cell)) in_use.merge(levers_of(cell));
  }
  std::vector<Cell> kept;
  for (Cell& cell : cells) {
    auto misfit = misfit_of(cell);
    if (misfit && !(is_lever(misfit->axis) && std::ranges::includes(in_use, levers_of(cell)))) {
      return misfit;
    }
    if (!misfit) kept.push_back(std::move(cell));
  }
  cells = std::move(kept);
  return {};
}

}  // namespace gradsync::plan
