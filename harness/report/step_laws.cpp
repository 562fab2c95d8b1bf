#include "harness/report/step_laws.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "harness/plan/strategies.h"
#include "harness/report/cell_group.h"
#include "harness/report/labels.h"
#include "harness/stats/step_law.h"

namespace gradsync::report {

using nlohmann::json;

namespace {

constexpr const char* kAccumulation = "accumulation_steps";
constexpr std::size_t kLeastAccumulations = 3;  // fewer are no sweep

using Cells = std::vector<const json*>;

// As published, windows hold unequal numbers of micro-batches, and there is no time of one.
bool has_law(const json& cell) {
  const std::string wrapper = cell["cell"].value("wrapper", "");
  return cell.value("status", "") == "ok" && cell["micro_batch_s"].is_object() &&
         cell["step_s"]["mean"] > 0 && cell["cell"].contains(kAccumulation) &&
         (wrapper == "ddp" || wrapper == "fsdp");
}

json shared_by(const json& cell) {
  json shared = without_strategy(cell["cell"]);
  shared.erase(kAccumulation);
  return shared;
}

// What the cells share beside those cells, in the order of the part.
std::vector<std::pair<json, Cells>> sweeps_of(const PartView& part) {
  std::vector<std::pair<json, Cells>> sweeps;
  for (const json& cell : part.cells) {
    if (!has_law(cell)) continue;
    const json shared = shared_by(cell);
    const auto same = [&](const auto& sweep) { return sweep.first == shared; };
    auto found = std::find_if(sweeps.begin(), sweeps.end(), same);
    if (found == sweeps.end()) found = sweeps.emplace(sweeps.end(), shared, Cells{});
    found->second.push_back(&cell);
  }
  std::erase_if(sweeps, [](const auto& sweep) {
    std::set<json> accumulations;
    for (const json* cell : sweep.second) accumulations.insert((*cell)["cell"][kAccumulation]);
    return accumulations.size() < kLeastAccumulations;
  });
  return sweeps;
}

stats::StepPoint point_of(const json& result_cell) {
  const json& cell = result_cell["cell"];
  const int micro_batches = cell[kAccumulation];
  const bool each = plan::syncs_every_micro_batch(cell["wrapper"], cell["strategy"]);
  return {static_cast<double>(micro_batches), static_cast<double>(each ? micro_batches : 1),
          result_cell["step_s"]["mean"]};
}

json law_to_json(const PartView& part, const json& shared, const Cells& cells,
                 const std::vector<stats::StepPoint>& points, const stats::CheckedStepLaw& fit) {
  json out = {{"part", part.name},          {"cell", shared},
              {"fixed_s", fit.law.fixed_s}, {"micro_batch_s", fit.law.micro_batch_s},
              {"sync_s", fit.law.sync_s},   {"largest_residual", 0.0},
              {"largest_error", nullptr},   {"points", json::array()}};
  for (std::size_t i = 0; i < points.size(); ++i) {
    const double error = fit.law.error(points[i]);
    json& largest = out[fit.held_out[i] ? "largest_error" : "largest_residual"];
    largest = std::max(largest.is_null() ? 0.0 : largest.get<double>(), std::abs(error));
    out["points"].push_back({{"strategy", (*cells[i])["cell"]["strategy"]},
                             {kAccumulation, (*cells[i])["cell"][kAccumulation]},
                             {"syncs", static_cast<int>(points[i].syncs)},
                             {"step_s", points[i].step_s},
                             {"law_s", fit.law.step_s(points[i])},
                             {"error", error},
                             {"held_out", static_cast<bool>(fit.held_out[i])}});
  }
  return out;
}

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

// "On 2 nodes x 1 rank, 1 Gbit/s, compression fp16": the place and what varies beside the sweep.
std::string place_of(const PartView& part, const json& law) {
  const auto in_law = [&](const json& cell) { return shared_by(cell) == law["cell"]; };
  const auto cell = std::find_if(part.cells.begin(), part.cells.end(), in_law);
  std::string text = "On " + topology_label(part.context, *cell).text();
  for (const std::string& name : part.varying_parameters()) {
    if (name == kAccumulation) continue;
    text += ", ";
    text += name == "reshard_after_forward" ? sharding_label(law["cell"])
                                            : name + " " + parameter_text(law["cell"], name);
  }
  return text;
}

std::string sentence(const PartView& part, const json& law) {
  std::set<int> fitted;
  const json* farthest = nullptr;
  std::size_t held_out = 0;
  for (const json& point : law["points"]) {
    if (!point["held_out"]) {
      fitted.insert(point[kAccumulation].get<int>());
      continue;
    }
    ++held_out;
    const auto error = [](const json& of) { return std::abs(of["error"].get<double>()); };
    if (farthest == nullptr || error(point) > error(*farthest)) farthest = &point;
  }
  std::string text = fmt::format(
      "{}, a step of m micro-batches, s of them synchronized, takes {:.4f} + {:.4f} m + {:.4f} s "
      "seconds: fitted to {} of {} cells (accumulation {}), which it misses by {} at most",
      place_of(part, law), law["fixed_s"].get<double>(), law["micro_batch_s"].get<double>(),
      law["sync_s"].get<double>(), law["points"].size() - held_out, law["points"].size(),
      fmt::join(fitted, ", "), percent(law["largest_residual"]));
  if (farthest == nullptr) return text + "; none is left to check it.\n";
  return text + fmt::format("; the other {} by {} at most ({}, accumulation {}).\n", held_out,
                            percent(law["largest_error"]), strategy_label((*farthest)["strategy"]),
                            (*farthest)[kAccumulation].get<int>());
}

}  // namespace

std::vector<json> step_laws(const PartView& part) {
  std::vector<json> laws;
  for (const auto& [shared, cells] : sweeps_of(part)) {
    std::vector<stats::StepPoint> points;
    for (const json* cell : cells) points.push_back(point_of(*cell));
    const auto fit = stats::fit_and_check_step_law(points);
    if (fit) laws.push_back(law_to_json(part, shared, cells, points, *fit));
  }
  return laws;
}

std::string step_law_sentences(const PartView& part) {
  std::string text;
  for (const json& law : step_laws(part)) text += sentence(part, law);
  return text;
}

}  // namespace gradsync::report
