#include "harness/summary/pareto_front.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "harness/base/grouped.h"
#include "harness/base/named.h"
#include "harness/plan/cell.h"
#include "harness/summary/comparison.h"
#include "harness/text/labels.h"

namespace gradsync::summary {

using results::CellResult;
using results::Parameters;
using results::ParetoFront;

namespace {

struct Measured {
  const CellGroup* group;
  std::int64_t peak_bytes;
  double step_s;
};

std::vector<Measured> measured(const std::vector<CellGroup>& groups,
                               const std::vector<CellResult>& cells) {
  std::vector<Measured> list;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const CellResult& cell = cells[i];
    if (!cell.is_timed() || !cell.peak_allocated_bytes || text::is_on_the_road(cell.cell)) continue;
    list.push_back({&groups[i], *cell.peak_allocated_bytes, cell.step_s->mean});
  }
  return list;
}

// Gradients that are summed in the type that they are reduced in, and this in that of the
// parameters, are what DDP has, whose cells do not say so.
Parameters without_equal_dtypes(const Parameters& cell) {
  const bool equal = cell.param_dtype() == cell.dtype() && cell.reduce_dtype() == cell.dtype();
  return equal ? cell.without({"param_dtype", "reduce_dtype", "gradient_dtype"}) : cell;
}

std::pair<std::string, nlohmann::json> work_of(const Measured& one) {
  return {one.group->part, without_levers(one.group->cell).written()};
}

// Returns whether levers other than the strategy vary: other pages compare strategies.
bool levers_vary(const std::vector<const Measured*>& list) {
  const auto but_strategy = [](const Measured* one) {
    return one->group->cell.without({"strategy"});
  };
  return std::ranges::any_of(
      list, [&](const Measured* one) { return but_strategy(one) != but_strategy(list.front()); });
}

std::optional<results::Ratio> against(const Measured& one, const Measured& fastest, double level) {
  const auto ratio = compare_steps(*one.group, *fastest.group, level);
  return ratio ? std::optional<results::Ratio>(*ratio) : std::nullopt;
}

ParetoFront front_of(std::vector<const Measured*> list) {
  std::ranges::stable_sort(
      list, {}, [](const Measured* one) { return std::tuple(one->peak_bytes, one->step_s); });
  const Measured& fastest = **std::ranges::min_element(list, {}, &Measured::step_s);
  ParetoFront front;
  front.part = fastest.group->part;
  front.cell = without_levers(fastest.group->cell);
  front.choices = list.size() * (list.size() - 1) / 2;
  const double level = 1 - (1 - stats::kUsualLevel) / static_cast<double>(front.choices);
  double least_s = std::numeric_limits<double>::infinity();
  for (const Measured* one : list) {
    front.points.push_back({.cell = one->group->cell,
                            .peak_allocated_bytes = one->peak_bytes,
                            .step_s = one->step_s,
                            .on_front = one->step_s < least_s,
                            .vs_fastest = against(*one, fastest, level)});
    least_s = std::min(least_s, one->step_s);
  }
  return front;
}

}  // namespace

const std::set<std::string>& levers() {
  static const std::set<std::string> names = [] {
    std::set<std::string> found;
    for (const plan::Axis& axis : plan::axes()) {
      if (axis.trades_memory) found.insert(axis.name);
    }
    return found;
  }();
  return names;
}

Parameters without_levers(Parameters cell) {
  cell = without_equal_dtypes(cell);
  for (const std::string& lever : levers()) cell = cell.without({lever.c_str()});
  return cell;
}

bool is_pulled(const Parameters& cell, const std::string& lever) {
  return cell.has(lever) &&
         cell.value(lever) != plan::default_of(*entry_named(plan::axes(), lever));
}

std::vector<ParetoFront> pareto_fronts(const std::vector<CellGroup>& groups,
                                       const std::vector<CellResult>& cells) {
  std::vector<ParetoFront> fronts;
  const std::vector<Measured> all = measured(groups, cells);
  for (const auto& list : grouped(all, work_of)) {
    if (levers_vary(list)) fronts.push_back(front_of(list));
  }
  return fronts;
}

}  // namespace gradsync::summary
