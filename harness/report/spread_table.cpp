#include "harness/report/spread_table.h"

#include <algorithm>

#include "harness/report/columns.h"
#include "harness/report/row_names.h"

namespace gradsync::report {

using results::CellResult;

namespace {

bool has_bound(const CellResult& cell) {
  return cell.is_timed() && cell.lower_bound;
}

void add(std::vector<CellColumn<CellResult>>& shown, const std::vector<Column>& columns,
         int decimals) {
  for (const Column& column : columns) {
    shown.push_back({column.head, [column, decimals](const CellResult& cell) {
                       return text_of(column, cell, decimals);
                     }});
  }
}

}  // namespace

Blocks spread_table(const PartView& part) {
  if (std::ranges::none_of(part.cells, &CellResult::is_timed)) return {};
  std::vector<CellColumn<CellResult>> columns;
  add(columns, spread_columns(), part.decimals());
  std::string head = "Single steps in seconds, each that of its slowest rank";
  if (std::ranges::any_of(part.cells, has_bound)) {
    add(columns, bound_columns(), part.decimals());
    head += "; bound = what computation and the\nmeasured link take at least";
  }
  return {Prose{head + ":\n"}, cell_table(RowNames(part), part.cells, columns)};
}

}  // namespace gradsync::report
