#include "harness/summary/step_laws.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "harness/base/grouped.h"
#include "harness/plan/strategies.h"
#include "harness/stats/step_law.h"

namespace gradsync::summary {

using results::CellResult;
using results::Law;
using results::Parameters;

namespace {

constexpr const char* kAccumulation = "accumulation_steps";
constexpr std::size_t kLeastAccumulations = 3;  // fewer are no sweep

using Cells = std::vector<const CellResult*>;

// As published, windows hold unequal numbers of micro-batches, and there is no time of one.
bool has_law(const CellResult& cell) {
  const std::string wrapper = cell.cell.wrapper();
  return cell.is_timed() && cell.micro_batch_s && cell.step_s->mean > 0 &&
         cell.cell.has(kAccumulation) && (wrapper == "ddp" || wrapper == "fsdp");
}

Parameters shared_by(const CellResult& cell) {
  return cell.cell.without({"strategy", kAccumulation});
}

// Cells of one part that differ in strategy and accumulation alone, in the order of the result.
std::vector<Cells> sweeps_of(const std::vector<CellResult>& cells) {
  const auto part_and_rest = [](const CellResult& cell) {
    return std::pair(cell.part, shared_by(cell).written());
  };
  std::vector<Cells> sweeps = grouped(cells, part_and_rest);
  for (Cells& sweep : sweeps) {
    std::erase_if(sweep, [](const CellResult* cell) { return !has_law(*cell); });
  }
  std::erase_if(sweeps, [](const Cells& sweep) {
    std::set<int> accumulations;
    for (const CellResult* cell : sweep) accumulations.insert(cell->cell.accumulation_steps());
    return accumulations.size() < kLeastAccumulations;
  });
  return sweeps;
}

stats::StepPoint point_of(const CellResult& cell) {
  const int micro_batches = cell.cell.accumulation_steps();
  const bool each = plan::syncs_every_micro_batch(cell.cell.wrapper(), cell.cell.strategy());
  return {static_cast<double>(micro_batches), static_cast<double>(each ? micro_batches : 1),
          cell.step_s->mean};
}

Law law_of(const Cells& cells, const std::vector<stats::StepPoint>& points,
           const stats::CheckedStepLaw& fit) {
  Law law;
  law.part = cells.front()->part;
  law.cell = shared_by(*cells.front());
  law.fixed_s = fit.law.fixed_s;
  law.micro_batch_s = fit.law.micro_batch_s;
  law.sync_s = fit.law.sync_s;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const double error = fit.law.error(points[i]);
    if (fit.held_out[i]) {
      law.largest_error = std::max(law.largest_error.value_or(0), std::abs(error));
    } else {
      law.largest_residual = std::max(law.largest_residual, std::abs(error));
    }
    law.points.push_back({.strategy = cells[i]->cell.strategy(),
                          .accumulation_steps = cells[i]->cell.accumulation_steps(),
                          .syncs = static_cast<int>(points[i].syncs),
                          .step_s = points[i].step_s,
                          .law_s = fit.law.step_s(points[i]),
                          .error = error,
                          .held_out = fit.held_out[i]});
  }
  return law;
}

}  // namespace

std::vector<Law> step_laws(const std::vector<CellResult>& cells) {
  std::vector<Law> laws;
  for (const Cells& sweep : sweeps_of(cells)) {
    std::vector<stats::StepPoint> points;
    for (const CellResult* cell : sweep) points.push_back(point_of(*cell));
    const auto fit = stats::fit_and_check_step_law(points);
    if (fit) laws.push_back(law_of(sweep, points, *fit));
  }
  return laws;
}

}  // namespace gradsync::summary
