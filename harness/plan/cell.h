// The axes of a cell: which fields there are and which values each may have.
//
// One table serves the plan file, where an axis is a list to multiply out, and the results file or
// launch specification, where a cell has one value of each. A new option is its member of Cell,
// which C++ cannot declare by the row of a table, its row in cell.cpp, and where it acts; kinds of
// axes are in axis_kinds.h.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/plan/plan.h"

namespace gradsync::plan {

struct Axis {
  std::string name;
  // Puts `value` into the cell. Errors: std::invalid_argument whose text is what was expected.
  std::function<void(Cell&, const nlohmann::json&)> set;
  std::function<nlohmann::json(const Cell&)> get;

  // When a results file has it. Always: unless it belongs to FSDP and the cell does not. Later: it
  // came after the first results, which mean its default, and so it is left out where it has that.
  // IfAny: it is left out where it is 0, which means that there is none.
  enum class Written { Always, Later, IfAny };
  Written written = Written::Always;
  std::string wrapper;  // under any other it means nothing, and has its default; "": under all
  // A lever against running out: it trades what a rank holds for what a step takes, and the sums
  // that train are the same, to the last digit or in another order.
  bool trades_memory = false;

  Axis later() const;
  Axis if_any() const;
  Axis under(const std::string& its_wrapper) const;
  Axis lever() const;
};

// Every axis; in a product the last one, strategy, varies fastest.
const std::vector<Axis>& axes();

// Returns the parameters of a results file's cell, with those that it leaves out where they have
// their defaults.
nlohmann::json with_defaults(const nlohmann::json& cell);

// Returns whether a rank runs both cells with one model, wrapper and optimizer: what differs
// between them is told to it anew for each trial.
bool share_a_workload(const Cell& a, const Cell& b);

// Largest count a plan may ask for; beyond it a typing error is likelier than a wish.
inline constexpr int kLargestCount = 1'000'000;

// Returns the product of the lists in `cells`. An absent axis has its default alone. `path` is the
// place in the file ("cells.").
// Errors: ConfigError for an unknown axis, an empty list, a wrong or repeated value, or a strategy
// that its wrapper does not have.
std::vector<Cell> multiply_out(const nlohmann::json& cells, const std::string& file,
                               const std::string& path);

}  // namespace gradsync::plan
