// A table with a row per cell: topology, what else varies, strategy, then what is asked of each.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/report/part_view.h"

namespace gradsync::report {

struct CellColumn {
  std::string head;
  std::function<std::string(const nlohmann::json& cell)> text;
};

// Returns the Markdown table of the part's cells, in their order.
std::string cell_table(const PartView& part, const std::vector<CellColumn>& columns);

}  // namespace gradsync::report
