#include "harness/text/eta.h"

#include <algorithm>

namespace gradsync::text {

void Eta::finished(std::size_t trial, double duration_s) {
  if (trial >= cells_.size()) return;
  for (Total* total : {&by_cell_[cells_[trial]], &all_}) {
    total->duration_s += duration_s;
    ++total->count;
  }
}

std::optional<double> Eta::remaining_s(std::size_t trial, double spent_s, double elapsed_s) const {
  if (all_.count == 0 || all_.duration_s <= 0) return std::nullopt;
  double remaining_s = 0;
  for (std::size_t i = trial; i < cells_.size(); ++i) {
    const auto known = by_cell_.find(cells_[i]);
    const Total& total = known == by_cell_.end() ? all_ : known->second;
    remaining_s += total.duration_s / total.count;
  }
  const double between = std::max(1.0, (elapsed_s - spent_s) / all_.duration_s);
  return std::max(0.0, (remaining_s - spent_s) * between);
}

}  // namespace gradsync::text
