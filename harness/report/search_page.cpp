#include "harness/report/search_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "harness/base/units.h"
#include "harness/report/labels.h"
#include "harness/report/part_view.h"
#include "harness/report/text_table.h"

namespace gradsync::report {

using nlohmann::json;

namespace {

std::string bytes_text(const json& bytes) {
  return bytes.is_null() ? "-" : format_bytes(bytes.get<double>());
}

std::string value_text(const json& search, const json& value) {
  if (search["axis"] != "memory_budget_bytes") return value.dump();
  return fmt::format("{} ({})", value.dump(), bytes_text(value));
}

std::string edge_text(const json& search, const json& cell) {
  const std::string outcome = cell["outcome"];
  if (outcome == "found") return value_text(search, cell["edge"]);
  if (outcome == "none_fits") return "none fits";
  if (outcome == "not_monotone") return "not monotone";
  if (outcome == "stopped") return "-";
  return search["wanted"] == "largest" ? value_text(search, cell["to"]) + " or more"
                                       : value_text(search, cell["from"]) + " or less";
}

// A cell's place in the plan, as the columns of its row have it.
std::vector<std::string> name_of(const json& entry, const std::vector<std::string>& varying) {
  const json& cell = entry["cell"];
  std::vector<std::string> name{plain_text(cell["topology"]),
                                strategy_label(cell["strategy"].get<std::string>())};
  for (const std::string& parameter : varying) {
    name.push_back(cell.contains(parameter) ? plain_text(cell[parameter]) : "");
  }
  return name;
}

}  // namespace

std::string search_markdown(const json& search, const std::string& raw_directory) {
  const std::string what =
      fmt::format("{} {}", plain_text(search["wanted"]), plain_text(search["axis"]));
  PartView view;
  for (const json& cell : search["cells"]) view.cells.push_back(cell);
  const auto varying = view.varying_parameters();
  std::vector<TextTable::Column> columns{{"topology", Align::Left}, {"strategy", Align::Left}};
  for (const std::string& name : varying) columns.push_back({name, Align::Right});
  for (const std::string& head : {what, std::string("peak there"), std::string("trials")}) {
    columns.push_back({head, Align::Right});
  }
  TextTable table(columns);
  std::string reasons;
  for (const json& cell : search["cells"]) {
    auto row = name_of(cell, varying);
    reasons += fmt::format("- {}: {}\n", fmt::join(row, ", "), plain_text(cell["reason"]));
    row.push_back(edge_text(search, cell));
    row.push_back(bytes_text(cell["peak_allocated_bytes"]));
    row.push_back(std::to_string(cell["probes"].size()));
    table.add_row(std::move(row));
  }
  return fmt::format("plan {}: the {} that fits\n\n{}\n{}\nRaw: {}\n", plain_text(search["plan"]),
                     what, table.to_markdown(), reasons, raw_directory);
}

}  // namespace gradsync::report
