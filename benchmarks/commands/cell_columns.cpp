#include "benchmarks/commands/cell_columns.h"

#include <algorithm>

#include "harness/plan/cell.h"
#include "harness/text/labels.h"

namespace gradsync::cli {

std::string axis_text(const plan::Cell& cell, const std::string& axis) {
  return text::parameter_text(nlohmann::json(cell), axis);
}

std::vector<std::string> varying_axes(const std::vector<plan::Cell>& cells,
                                      const std::vector<std::string>& shown) {
  std::vector<std::string> names;
  for (const plan::Axis& axis : plan::axes()) {
    const auto differs = [&](const plan::Cell& cell) {
      return axis_text(cell, axis.name) != axis_text(cells.front(), axis.name);
    };
    if (std::ranges::find(shown, axis.name) == shown.end() && std::ranges::any_of(cells, differs)) {
      names.push_back(axis.name);
    }
  }
  return names;
}

}  // namespace gradsync::cli
