// A table: Markdown when pasted, lined up when read in a terminal; other pages read its cells.
#pragma once

#include <string>
#include <vector>

namespace gradsync::text {

enum class Align { Left, Right, Centre };

class TextTable {
 public:
  struct Column {
    std::string head;
    Align align = Align::Right;
  };

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Adds a row; missing cells at its end are blank.
  void add_row(std::vector<std::string> cells);

  // Returns the table, every line ended by a newline. A "|" inside a cell is escaped.
  std::string to_markdown() const;

  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }  // as they were added

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace gradsync::text
