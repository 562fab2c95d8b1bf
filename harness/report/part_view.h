// One part of a result, as its tables see it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gradsync::report {

// Whether the model of this entry of result.json waited instead of computing.
bool is_paced(const nlohmann::json& cell);

struct PartView {
  std::string name;
  std::string about;  // from the plan; may be empty
  nlohmann::json context;
  std::vector<nlohmann::json> cells;  // entries of result.json, in its order

  bool paced() const;  // any of its cells
  bool several_topologies() const;
  // Parameters of the cells that differ inside this part, but for topology and strategy.
  std::vector<std::string> varying_parameters() const;
};

// Returns the parts of a result in the order of their cells.
std::vector<PartView> parts_of(const nlohmann::json& result);

// Returns the cell of `part` that shares all with `cell` but its strategy, or nullptr.
const nlohmann::json* find_strategy(const PartView& part, const nlohmann::json& cell,
                                    const std::string& strategy);

// Returns one cell for every combination of parameters other than the strategy, in order.
std::vector<nlohmann::json> settings_of(const PartView& part);

}  // namespace gradsync::report
