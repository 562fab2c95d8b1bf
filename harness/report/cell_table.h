// A table with a row for each cell: its names first, then its columns.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/summary/cell_name.h"
#include "harness/text/text_table.h"

namespace gradsync::report {

// What a table shows of a cell, whatever its type; a cell has a `name`.
template <typename Cell>
struct CellColumn {
  std::string head;
  std::function<std::string(const Cell& cell)> text;
  text::Align align = text::Align::Right;
};

// Returns the table of at least one cell. `remark`: what follows the name of a cell.
template <typename Cell>
text::TextTable cell_table(
    const std::vector<Cell>& cells, const std::vector<CellColumn<Cell>>& columns,
    const std::function<std::string(const Cell& cell)>& remark = [](const Cell&) { return ""; }) {
  std::vector<text::TextTable::Column> heads;
  for (const std::string& head : cells.front().name.heads())
    heads.push_back({head, text::Align::Left});
  for (const auto& column : columns) heads.push_back({column.head, column.align});
  text::TextTable table(std::move(heads));
  for (const Cell& cell : cells) {
    std::vector<std::string> texts = cell.name.texts();
    texts.back() += remark(cell);
    for (const auto& column : columns) texts.push_back(column.text(cell));
    table.add_row(std::move(texts));
  }
  return table;
}

}  // namespace gradsync::report
