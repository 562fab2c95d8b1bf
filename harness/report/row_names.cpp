#include "harness/report/row_names.h"

#include <fmt/format.h>

namespace gradsync::report {

namespace {

std::vector<NamedRow> rows_of(const PartView& part) {
  std::vector<NamedRow> rows;
  for (const results::CellResult& cell : part.cells) rows.push_back({cell.cell, shape_of(cell)});
  return rows;
}

}  // namespace

RowNames::RowNames(const results::Context& context, std::vector<NamedRow> rows)
    : rows_(std::move(rows)) {
  std::vector<const results::Parameters*> cells;
  for (const NamedRow& row : rows_) {
    cells.push_back(&row.cell);
    topologies_.push_back(topology_label(context, row.cell.topology(), row.ran_on));
  }
  varying_ = results::varying_names(cells);
}

RowNames::RowNames(const PartView& part) : RowNames(part.context, rows_of(part)) {}

std::vector<TextTable::Column> RowNames::heads() const {
  std::vector<TextTable::Column> heads{{"topology", Align::Left}};
  for (const std::string& name : varying_) heads.push_back({name, Align::Left});
  heads.push_back({"strategy", Align::Left});
  return heads;
}

std::vector<std::string> RowNames::texts(std::size_t row) const {
  std::vector<std::string> texts{topology_text(row)};
  for (const std::string& name : varying_) texts.push_back(parameter_text(rows_[row].cell, name));
  texts.push_back(strategy_label(rows_[row].cell.strategy()));
  return texts;
}

std::string RowNames::place(std::size_t row) const {
  std::string text = topologies_[row].text();
  for (const std::string& name : varying_) {
    text += fmt::format(", {} {}", name, parameter_text(rows_[row].cell, name));
  }
  return text;
}

std::string RowNames::place_and_strategy(std::size_t row, const char* between) const {
  return place(row) + between + strategy_label(rows_[row].cell.strategy());
}

std::string RowNames::topology_text(std::size_t row) const {
  const auto same = [&](std::size_t other) {
    return other < rows_.size() && rows_[other].cell.topology() == rows_[row].cell.topology();
  };
  std::size_t before = 0;  // rows of this topology just above
  while (before < row && same(row - before - 1)) ++before;
  if (before == 0) return same(row + 1) ? topologies_[row].shape : topologies_[row].text();
  return before == 1 ? topologies_[row].links : "";
}

}  // namespace gradsync::report
