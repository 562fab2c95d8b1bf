#include "harness/report/tables.h"

#include <algorithm>

#include "harness/report/cell_table.h"
#include "harness/report/columns.h"

namespace gradsync::report {

using results::CellResult;

namespace {

bool has_bound(const CellResult& cell) {
  return cell.is_timed() && cell.lower_bound;
}

}  // namespace

text::Blocks spread_table(const summary::PartView& part) {
  if (std::ranges::none_of(part.cells, &CellResult::is_timed)) return {};
  std::vector<CellColumn<summary::CellView>> columns;
  add_columns(columns, spread_columns(), part.decimals);
  std::string head = "Single steps in seconds, each that of its slowest rank";
  if (std::ranges::any_of(part.cells, has_bound)) {
    add_columns(columns, bound_columns(), part.decimals);
    head += "; bound = what computation and the\nmeasured link take at least";
  }
  return {text::Prose{head + ":\n"}, cell_table(part.cells, columns)};
}

}  // namespace gradsync::report
