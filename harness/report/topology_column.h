// The first column of a table: the topology, told once for all its rows.
#pragma once

#include <string>

#include "harness/report/part_view.h"

namespace gradsync::report {

class TopologyColumn {
 public:
  // `part` must outlive this object.
  explicit TopologyColumn(const PartView& part) : part_(part) {}

  // Returns the text for a row of the part, to be asked for in order: the topology's shape in its
  // first row, its links in the second, then "". A topology of one row has both in it.
  std::string text(std::size_t row);

 private:
  std::string topology_at(std::size_t row) const;

  const PartView& part_;
  int rows_ = 0;
};

}  // namespace gradsync::report
