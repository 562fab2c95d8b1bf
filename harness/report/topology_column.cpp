#include "harness/report/topology_column.h"

#include "harness/report/labels.h"

namespace gradsync::report {

std::string TopologyColumn::text(std::size_t row) {
  const std::string name = topology_at(row);
  const TopologyLabel label = topology_label(part_.context, part_.cells[row]);
  if (row == 0 || topology_at(row - 1) != name) {
    rows_ = 0;
    const bool alone = row + 1 == part_.cells.size() || topology_at(row + 1) != name;
    return alone ? label.text() : label.shape;
  }
  return ++rows_ == 1 ? label.links : "";
}

std::string TopologyColumn::topology_at(std::size_t row) const {
  return part_.cells[row]["cell"].value("topology", "");
}

}  // namespace gradsync::report
