#include "harness/summary/part_view.h"

#include <algorithm>
#include <set>

#include "harness/summary/plan_source.h"
#include "harness/text/labels.h"

namespace gradsync::report {

using results::CellResult;
using results::Parameters;

bool is_paced(const CellResult& cell) {
  return cell.timing == results::Timing::Paced;
}

bool PartView::paced() const {
  return std::ranges::any_of(cells, is_paced);
}

bool PartView::several_topologies() const {
  return std::ranges::any_of(cells, [&](const CellResult& cell) {
    return cell.cell.topology() != cells.front().cell.topology();
  });
}

std::vector<std::string> PartView::varying_parameters() const {
  std::vector<const Parameters*> parameters;
  for (const CellResult& cell : cells) parameters.push_back(&cell.cell);
  return results::varying_names(parameters);
}

int PartView::decimals() const {
  std::vector<double> means_s;
  for (const CellResult& cell : cells) {
    if (cell.step_s) means_s.push_back(cell.step_s->mean);
  }
  return decimals_for(means_s);
}

std::vector<PartView> parts_of(const results::Result& result) {
  std::vector<PartView> parts;
  for (const CellResult& cell : result.cells) {
    auto found = std::ranges::find(parts, cell.part, &PartView::name);
    if (found == parts.end()) {
      parts.push_back({cell.part, about_part(result.plan, cell.part), result.context, {}});
      found = parts.end() - 1;
    }
    found->cells.push_back(cell);
  }
  return parts;
}

const CellResult* find_strategy(const PartView& part, const CellResult& cell,
                                const std::string& strategy) {
  const Parameters rest = cell.cell.without({"strategy"});
  const auto found = std::ranges::find_if(part.cells, [&](const CellResult& other) {
    return other.cell.strategy() == strategy && other.cell.without({"strategy"}) == rest;
  });
  return found == part.cells.end() ? nullptr : &*found;
}

std::vector<CellResult> settings_of(const PartView& part) {
  std::vector<CellResult> settings;
  std::set<nlohmann::json> seen;
  for (const CellResult& cell : part.cells) {
    if (seen.insert(cell.cell.without({"strategy"}).written()).second) settings.push_back(cell);
  }
  return settings;
}

}  // namespace gradsync::report
