#include "models/footprint.h"

#include <numeric>

namespace gradsync::models {

std::int64_t Footprint::elements() const {
  std::int64_t sum =
      std::accumulate(other_parameters.begin(), other_parameters.end(), std::int64_t{0});
  for (const UnitFootprint& unit : units) {
    sum = std::accumulate(unit.parameters.begin(), unit.parameters.end(), sum);
  }
  return sum;
}

std::size_t Footprint::tensors() const {
  std::size_t count = other_parameters.size();
  for (const UnitFootprint& unit : units) count += unit.parameters.size();
  return count;
}

}  // namespace gradsync::models
