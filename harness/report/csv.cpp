#include "harness/report/formats.h"

#include <nlohmann/json.hpp>
#include <set>

#include "harness/report/columns.h"
#include "harness/text/labels.h"

namespace gradsync::report {

using results::CellResult;

namespace {

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

struct AsField {
  std::string operator()(std::monostate) const { return ""; }
  std::string operator()(const std::string& text) const { return quoted(text); }
  std::string operator()(const results::Ratio& ratio) const { return (*this)(ratio.ratio); }
  // With as many digits as result.json has.
  std::string operator()(double value) const { return nlohmann::json(value).dump(); }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
};

std::string parameter_field(const CellResult& cell, const std::string& name) {
  return cell.cell.has(name) ? quoted(text::plain_text(cell.cell.value(name))) : "";
}

}  // namespace

std::string result_csv(const results::Result& result) {
  std::set<std::string> parameters;
  for (const CellResult& cell : result.cells) {
    for (const std::string& name : cell.cell.names()) parameters.insert(name);
  }
  std::string text = "part";
  for (const std::string& name : parameters) text += "," + quoted(name);
  for (const Column& column : csv_columns()) text += "," + column.name;
  text += "\r\n";
  for (const CellResult& cell : result.cells) {
    text += quoted(cell.part);
    for (const std::string& name : parameters) text += "," + parameter_field(cell, name);
    for (const Column& column : csv_columns()) {
      text += "," + std::visit(AsField{}, column.value(cell));
    }
    text += "\r\n";
  }
  return text;
}

}  // namespace gradsync::report
