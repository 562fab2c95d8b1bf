// What the rows of a table are called: topology, whatever else varies among them, strategy.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/summary/part_view.h"
#include "harness/text/labels.h"
#include "harness/text/text_table.h"

namespace gradsync::report {

struct NamedRow {
  results::Parameters cell;
  Shape ran_on;
};

class RowNames {
 public:
  RowNames(const results::Context& context, std::vector<NamedRow> rows);
  explicit RowNames(const PartView& part);

  // The columns that name a row, and their texts. The topology is told once for all of its rows:
  // its shape in the first, its links in the second; one of a single row has both in it.
  std::vector<TextTable::Column> heads() const;
  std::vector<std::string> texts(std::size_t row) const;

  // "2 nodes x 1 rank, 1 Gbit/s, model mlp": where the row ran, and what varies.
  std::string place(std::size_t row) const;
  std::string place_and_strategy(std::size_t row, const char* between) const;

 private:
  std::string topology_text(std::size_t row) const;

  std::vector<NamedRow> rows_;
  std::vector<TopologyLabel> topologies_;  // of each row
  std::vector<std::string> varying_;
};

// What a table shows of a cell, whatever its type.
template <typename Cell>
struct CellColumn {
  std::string head;
  std::function<std::string(const Cell& cell)> text;
  Align align = Align::Right;
};

// Returns the table with a row per cell: its names, then what is asked of each.
template <typename Cell>
TextTable cell_table(const RowNames& names, const std::vector<Cell>& cells,
                     const std::vector<CellColumn<Cell>>& columns) {
  auto heads = names.heads();
  for (const auto& column : columns) heads.push_back({column.head, column.align});
  TextTable table(heads);
  for (std::size_t row = 0; row < cells.size(); ++row) {
    std::vector<std::string> texts = names.texts(row);
    for (const auto& column : columns) texts.push_back(column.text(cells[row]));
    table.add_row(std::move(texts));
  }
  return table;
}

}  // namespace gradsync::report
