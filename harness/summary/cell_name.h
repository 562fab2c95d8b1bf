// The name of a cell among others: in the rows of a table, and in sentences.
//
// Made once for all cells that stand together, since a name says what they differ in.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "harness/results/parameters.h"
#include "harness/text/labels.h"

namespace gradsync::summary {

// A parameter that varies among cells, as one of them has it.
struct VaryingValue {
  std::string name;
  std::string text;  // "fp16"
};

// How a name shows reshard_after_forward if it varies: as it is, or by PyTorch's name for it.
enum class Sharding { AsParameter, ByName };

struct CellName {
  text::TopologyLabel topology;
  // A table names the topology once for all of its rows: its shape in the first row, its links in
  // the second; a single row has both.
  std::string topology_in_table;
  // The same parameters for each of the cells: all that differ, without topology and strategy.
  std::vector<VaryingValue> varying;
  std::string sharding;  // "FULL_SHARD" (labels.h)
  std::string strategy;  // its label

  // The heads of the columns that name a row, and their texts.
  std::vector<std::string> heads() const;
  std::vector<std::string> texts() const;

  // Returns ", model mlp, compression fp16": what varies, without parameters that are named
  // elsewhere.
  std::string varying_text(const std::set<std::string>& named = {},
                           Sharding sharding = Sharding::AsParameter) const;

  // Returns "2 nodes x 1 rank, 1 Gbit/s, model mlp": where it ran, and what varies.
  std::string place() const { return topology.text() + varying_text(); }
};

// A cell that is to be named.
struct UnnamedCell {
  const results::Parameters* cell;
  text::TopologyLabel topology;
};

// Returns the name of each of these cells, which stand together in this order.
std::vector<CellName> cell_names(const std::vector<UnnamedCell>& cells);

}  // namespace gradsync::summary
