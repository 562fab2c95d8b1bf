// Finds the parameters of cells that a table must show: those in which its rows differ.
#pragma once

#include <string>
#include <vector>

#include "harness/plan/plan.h"

namespace gradsync::cli {

// Returns the cell's value of an axis, as a table shows it; "-" where the axis means nothing there.
std::string axis_text(const plan::Cell& cell, const std::string& axis);

// Returns the axes in which `cells` differ, in their usual order, without those in `shown`.
std::vector<std::string> varying_axes(const std::vector<plan::Cell>& cells,
                                      const std::vector<std::string>& shown);

}  // namespace gradsync::cli
