#include "harness/summary/step_laws.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "harness/plan/strategies.h"
#include "harness/stats/step_law.h"
#include "harness/text/labels.h"

namespace gradsync::report {

using results::CellResult;
using results::Law;
using results::LawPoint;
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

// What the cells share beside those cells, in the order of the part.
std::vector<std::pair<Parameters, Cells>> sweeps_of(const PartView& part) {
  std::vector<std::pair<Parameters, Cells>> sweeps;
  for (const CellResult& cell : part.cells) {
    if (!has_law(cell)) continue;
    const Parameters shared = shared_by(cell);
    const auto same = [&](const auto& sweep) { return sweep.first == shared; };
    auto found = std::find_if(sweeps.begin(), sweeps.end(), same);
    if (found == sweeps.end()) found = sweeps.emplace(sweeps.end(), shared, Cells{});
    found->second.push_back(&cell);
  }
  std::erase_if(sweeps, [](const auto& sweep) {
    std::set<int> accumulations;
    for (const CellResult* cell : sweep.second)
      accumulations.insert(cell->cell.accumulation_steps());
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

Law law_of(const PartView& part, const Parameters& shared, const Cells& cells,
           const std::vector<stats::StepPoint>& points, const stats::CheckedStepLaw& fit) {
  Law law;
  law.part = part.name;
  law.cell = shared;
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

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

// "On 2 nodes x 1 rank, 1 Gbit/s, compression fp16": the place and what varies beside the sweep.
std::string place_of(const PartView& part, const Law& law) {
  const auto in_law = [&](const CellResult& cell) { return shared_by(cell) == law.cell; };
  const auto cell = std::find_if(part.cells.begin(), part.cells.end(), in_law);
  std::string text = "On " + topology_label(part.context, *cell).text();
  for (const std::string& name : part.varying_parameters()) {
    if (name == kAccumulation) continue;
    text += ", ";
    text += name == "reshard_after_forward" ? sharding_label(law.cell)
                                            : name + " " + parameter_text(law.cell, name);
  }
  return text;
}

std::string sentence(const PartView& part, const Law& law) {
  std::set<int> fitted;
  const LawPoint* farthest = nullptr;
  std::size_t held_out = 0;
  for (const LawPoint& point : law.points) {
    if (!point.held_out) {
      fitted.insert(point.accumulation_steps);
      continue;
    }
    ++held_out;
    if (farthest == nullptr || std::abs(point.error) > std::abs(farthest->error)) farthest = &point;
  }
  std::string text = fmt::format(
      "{}, a step of m micro-batches, s of them synchronized, takes {:.4f} + {:.4f} m + {:.4f} s "
      "seconds: fitted to {} of {} cells (accumulation {}), which it misses by {} at most",
      place_of(part, law), law.fixed_s, law.micro_batch_s, law.sync_s, law.points.size() - held_out,
      law.points.size(), fmt::join(fitted, ", "), percent(law.largest_residual));
  if (farthest == nullptr) return text + "; none is left to check it.\n";
  return text + fmt::format("; the other {} by {} at most ({}, accumulation {}).\n", held_out,
                            percent(*law.largest_error), strategy_label(farthest->strategy),
                            farthest->accumulation_steps);
}

}  // namespace

std::vector<Law> step_laws(const PartView& part) {
  std::vector<Law> laws;
  for (const auto& [shared, cells] : sweeps_of(part)) {
    std::vector<stats::StepPoint> points;
    for (const CellResult* cell : cells) points.push_back(point_of(*cell));
    const auto fit = stats::fit_and_check_step_law(points);
    if (fit) laws.push_back(law_of(part, shared, cells, points, *fit));
  }
  return laws;
}

std::string step_law_sentences(const PartView& part) {
  std::string text;
  for (const Law& law : step_laws(part)) text += sentence(part, law);
  return text;
}

}  // namespace gradsync::report
