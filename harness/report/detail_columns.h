// The numbers of the detailed table: which columns a part has, and what they say of a cell.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/report/part_view.h"

namespace gradsync::report {

struct DetailColumn {
  std::string head;
  // Of a cell of result.json whose status is ok. A table must not print the numbers of one of which
  // a trial failed as if all had gone well: they stay in result.json.
  std::function<std::string(const nlohmann::json& cell)> text;
  std::string meaning;  // what the head does not say, as a clause; may be empty
};

// Returns the columns of `part`, from slowdown on, in their order. One that would say nothing of
// any cell, or the same of all, is not among them.
std::vector<DetailColumn> detail_columns(const PartView& part);

}  // namespace gradsync::report
