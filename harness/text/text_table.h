// A table that is Markdown when pasted and lined up when read in a terminal.
#pragma once

#include <string>
#include <vector>

namespace gradsync::report {

enum class Align { Left, Right, Centre };

class TextTable {
 public:
  struct Column {
    std::string head;
    Align align = Align::Right;
  };

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Adds a row; missing cells at its end are blank. A "|" inside a cell is escaped.
  void add_row(std::vector<std::string> cells);

  // Returns the table, every line ended by a newline.
  std::string to_markdown() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace gradsync::report
