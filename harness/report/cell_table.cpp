#include "harness/report/cell_table.h"

#include "harness/report/labels.h"
#include "harness/report/text_table.h"
#include "harness/report/topology_column.h"

namespace gradsync::report {

using nlohmann::json;

std::string cell_table(const PartView& part, const std::vector<CellColumn>& columns) {
  const auto varying = part.varying_parameters();
  std::vector<TextTable::Column> heads = {{"topology", Align::Left}};
  for (const std::string& name : varying) heads.push_back({name, Align::Left});
  heads.push_back({"strategy", Align::Left});
  for (const CellColumn& column : columns) heads.push_back({column.head});
  TextTable table(heads);
  TopologyColumn topology(part);
  for (std::size_t row = 0; row < part.cells.size(); ++row) {
    const json& cell = part.cells[row];
    std::vector<std::string> texts = {topology.text(row)};
    for (const std::string& name : varying) texts.push_back(parameter_text(cell["cell"], name));
    texts.push_back(strategy_label(cell["cell"].value("strategy", "")));
    for (const CellColumn& column : columns) texts.push_back(column.text(cell));
    table.add_row(std::move(texts));
  }
  return table.to_markdown();
}

}  // namespace gradsync::report
