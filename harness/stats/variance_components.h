// How much values vary inside a group, and how much groups vary beside that.
//
// Turns of one start of the processes share where memory and threads happened to land, so a start
// is a group: the variation between starts does not get smaller with more turns, only with more
// starts.
#pragma once

#include <optional>
#include <vector>

namespace gradsync::stats {

// Both are variances, in the square of the values' unit.
struct VarianceComponents {
  std::optional<double> within;   // of one value about its group; absent: no group has two values
  std::optional<double> between;  // of a group's own level; absent: `within` is, or a single group
};

// Returns the components of one-way analysis of variance with random groups, which need not be of
// one size: the mean square within, and the mean square between less that, over the size of a
// group. Negative components become 0. Empty groups do not count.
// Source: Snedecor and Cochran, "Statistical Methods", 8th edition, 1989, sections 13.3 and 13.6.
VarianceComponents variance_components(const std::vector<std::vector<double>>& groups);

}  // namespace gradsync::stats
