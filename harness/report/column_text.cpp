#include <fmt/format.h>

#include "harness/base/units.h"
#include "harness/report/columns.h"
#include "harness/text/labels.h"

namespace gradsync::report {

using summary::CellView;

namespace {

std::string number_text(double value, Unit unit, int decimals) {
  switch (unit) {
    case Unit::Seconds:
      return text::seconds_text(value, decimals);
    case Unit::SecondsWithUnit:
      return text::seconds_text(value, decimals) + " s";
    case Unit::Milliseconds:
      return fmt::format("{:.3f}", 1e3 * value);
    case Unit::Percent:
      return fmt::format("{:.1f} %", 100 * value);
    case Unit::Bytes:
      return format_bytes(value);
    case Unit::Times:
      return fmt::format("{:.2f}x", value);
    case Unit::Sds:
      return fmt::format("{:.2f} sd", value);
    case Unit::Tiny:  // "0" only where it is 0
      return value == 0 ? "0" : fmt::format("{:.1e}", value);
    case Unit::Plain:
      break;
  }
  return fmt::format("{:.2f}", value);
}

struct InWords {
  Unit unit;
  int decimals;

  std::string operator()(std::monostate) const { return "-"; }
  std::string operator()(const std::string& text) const { return text; }
  std::string operator()(const results::Ratio& ratio) const { return text::ratio_text(ratio); }
  std::string operator()(double value) const { return number_text(value, unit, decimals); }
  std::string operator()(std::int64_t value) const {
    return unit == Unit::Plain ? std::to_string(value)
                               : number_text(static_cast<double>(value), unit, decimals);
  }
};

}  // namespace

std::string text_of(const Column& column, const results::CellResult& cell, int decimals) {
  if (!cell.is_ok()) return "-";
  return std::visit(InWords{column.unit, decimals}, column.value(cell));
}

void add_columns(std::vector<CellColumn<CellView>>& shown, const std::vector<Column>& columns,
                 int decimals) {
  for (const Column& column : columns) {
    shown.push_back({column.head, [column, decimals](const CellView& cell) {
                       return text_of(column, cell, decimals);
                     }});
  }
}

}  // namespace gradsync::report
