#include "harness/report/spread_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/report/cell_table.h"
#include "harness/report/labels.h"

namespace gradsync::report {

using nlohmann::json;

namespace {

bool has_times(const json& cell) {
  return cell.value("status", "") == "ok" && cell["step_s"].is_object();
}

bool has_bound(const json& cell) {
  return has_times(cell) && cell.value("lower_bound", json()).is_object();
}

CellColumn seconds_column(const char* head, const char* field, int decimals) {
  return {head, [field, decimals](const json& cell) {
            return has_times(cell) ? seconds_text(cell["step_s"].value(field, json()), decimals)
                                   : std::string("-");
          }};
}

void add_bound_columns(std::vector<CellColumn>& columns, int decimals) {
  columns.push_back({"bound", [decimals](const json& cell) {
                       return has_bound(cell)
                                  ? seconds_text(cell["lower_bound"]["step_s"], decimals)
                                  : std::string("-");
                     }});
  columns.push_back(
      {"step / bound", [](const json& cell) {
         return has_bound(cell)
                    ? fmt::format("{:.2f}", cell["lower_bound"]["step_over_bound"].get<double>())
                    : std::string("-");
       }});
}

}  // namespace

std::string spread_table(const PartView& part) {
  if (std::none_of(part.cells.begin(), part.cells.end(), has_times)) return "";
  const int decimals = decimals_for(part.cells);
  std::vector<CellColumn> columns = {
      seconds_column("p5", "p5", decimals), seconds_column("median", "median", decimals),
      seconds_column("p95", "p95", decimals), seconds_column("largest", "max", decimals)};
  std::string head = "Single steps in seconds, each that of its slowest rank";
  if (std::any_of(part.cells.begin(), part.cells.end(), has_bound)) {
    add_bound_columns(columns, decimals);
    head += "; bound = what computation and the\nmeasured link take at least";
  }
  return head + ":\n\n" + cell_table(part, columns);
}

}  // namespace gradsync::report
