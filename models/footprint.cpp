#include "models/footprint.h"

#include <numeric>

namespace gradsync::models {

namespace {

std::int64_t sum_of(const std::vector<std::int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

}  // namespace

std::int64_t Footprint::elements() const {
  std::int64_t sum = sum_of(other_parameters);
  for (const UnitFootprint& unit : units) sum += sum_of(unit.parameters);
  return sum;
}

std::int64_t Footprint::frozen_elements() const {
  std::int64_t sum = sum_of(other_frozen);
  for (const UnitFootprint& unit : units) sum += sum_of(unit.frozen);
  return sum;
}

std::size_t Footprint::tensors() const {
  std::size_t count = other_parameters.size();
  for (const UnitFootprint& unit : units) count += unit.parameters.size();
  return count;
}

}  // namespace gradsync::models
