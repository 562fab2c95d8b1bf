#include "harness/text/text_table.h"

#include <algorithm>

#include "harness/text/text_width.h"

namespace gradsync::text {
namespace {

constexpr std::size_t kNarrowestColumn = 3;  // Markdown's "---"

std::string escaped(const std::string& cell) {
  std::string out;
  for (const char c : cell) {
    if (c == '|') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string aligned(const std::string& text, std::size_t width, Align align) {
  if (align == Align::Left) return pad_right(text, width);
  if (align == Align::Right) return pad_left(text, width);
  const std::size_t spare = width - std::min(width, display_width(text));
  return pad_right(std::string(spare / 2, ' ') + text, width);
}

std::string rule(std::size_t width, Align align) {
  std::string line(width + 2, '-');
  if (align != Align::Right) line.front() = ':';
  if (align != Align::Left) line.back() = ':';
  return line;
}

}  // namespace

void TextTable::add_row(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::to_markdown() const {
  std::string heads = "|";
  std::string rules = "|";
  std::vector<std::vector<std::string>> rows = rows_;
  for (auto& row : rows) {
    for (std::string& cell : row) cell = escaped(cell);
  }
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = std::max(kNarrowestColumn, display_width(columns_[i].head));
    for (const auto& row : rows) width = std::max(width, display_width(row[i]));
    widths.push_back(width);
    heads += " " + aligned(columns_[i].head, width, columns_[i].align) + " |";
    rules += rule(width, columns_[i].align) + "|";
  }
  std::string out = heads + "\n" + rules + "\n";
  for (const auto& row : rows) {
    out += "|";
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      out += " " + aligned(row[i], widths[i], columns_[i].align) + " |";
    }
    out += "\n";
  }
  return out;
}

}  // namespace gradsync::text
