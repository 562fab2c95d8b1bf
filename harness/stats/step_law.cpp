#include "harness/stats/step_law.h"

#include <array>
#include <cmath>
#include <iterator>
#include <set>

#include "harness/base/errors.h"

namespace gradsync::stats {
namespace {

constexpr std::size_t kCosts = 3;
using Vector = std::array<double, kCosts>;

// The normal equations: `matrix` times the costs is `right`.
struct Normal {
  std::array<Vector, kCosts> matrix{};
  Vector right{};
};

Normal normal_equations(const std::vector<StepPoint>& points) {
  Normal normal;
  for (const StepPoint& point : points) {
    GRADSYNC_CHECK(point.step_s, >, 0.0);
    const double weight = 1 / point.step_s;
    const Vector row{weight, weight * point.micro_batches, weight * point.syncs};
    for (std::size_t i = 0; i < kCosts; ++i) {
      for (std::size_t j = 0; j < kCosts; ++j) normal.matrix[i][j] += row[i] * row[j];
      normal.right[i] += row[i] * weight * point.step_s;
    }
  }
  return normal;
}

// Brings every column to length 1, so that what is left of a pivot is a share. Returns the lengths.
Vector scale(Normal& normal) {
  Vector lengths{};
  for (std::size_t i = 0; i < kCosts; ++i) lengths[i] = std::sqrt(normal.matrix[i][i]);
  for (std::size_t i = 0; i < kCosts; ++i) {
    for (std::size_t j = 0; j < kCosts; ++j) normal.matrix[i][j] /= lengths[i] * lengths[j];
    normal.right[i] /= lengths[i];
  }
  return lengths;
}

// Takes `column` out of the rows below it. A scaled matrix is positive definite: no pivoting.
void eliminate(Normal& normal, std::size_t column) {
  for (std::size_t row = column + 1; row < kCosts; ++row) {
    const double factor = normal.matrix[row][column] / normal.matrix[column][column];
    for (std::size_t j = column; j < kCosts; ++j) {
      normal.matrix[row][j] -= factor * normal.matrix[column][j];
    }
    normal.right[row] -= factor * normal.right[column];
  }
}

// Returns the solution; nothing if a column is, apart from rounding, a sum of others.
std::optional<Vector> solve(Normal normal) {
  constexpr double kOfItsOwn = 1e-9;
  const Vector lengths = scale(normal);
  for (std::size_t column = 0; column < kCosts; ++column) {
    if (!(normal.matrix[column][column] > kOfItsOwn)) return std::nullopt;
    eliminate(normal, column);
  }
  Vector costs{};
  for (std::size_t i = kCosts; i-- > 0;) {
    costs[i] = normal.right[i];
    for (std::size_t j = i + 1; j < kCosts; ++j) costs[i] -= normal.matrix[i][j] * costs[j];
    costs[i] /= normal.matrix[i][i];
  }
  for (std::size_t i = 0; i < kCosts; ++i) costs[i] /= lengths[i];
  return costs;
}

}  // namespace

std::optional<StepLaw> fit_step_law(const std::vector<StepPoint>& points) {
  const auto costs = solve(normal_equations(points));
  if (!costs) return std::nullopt;
  return StepLaw{(*costs)[0], (*costs)[1], (*costs)[2]};
}

std::vector<bool> held_out(const std::vector<StepPoint>& points) {
  std::set<double> numbers;
  for (const StepPoint& point : points) numbers.insert(point.micro_batches);
  std::vector<bool> held;
  for (const StepPoint& point : points) {
    const auto place = std::distance(numbers.begin(), numbers.find(point.micro_batches));
    held.push_back(place % 2 == 1);
  }
  return held;
}

std::optional<CheckedStepLaw> fit_and_check_step_law(const std::vector<StepPoint>& points) {
  const std::vector<bool> held = held_out(points);
  std::vector<StepPoint> fitted;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!held[i]) fitted.push_back(points[i]);
  }
  if (const auto law = fit_step_law(fitted)) return CheckedStepLaw{*law, held};
  if (const auto law = fit_step_law(points)) {
    return CheckedStepLaw{*law, std::vector<bool>(points.size(), false)};
  }
  return std::nullopt;
}

}  // namespace gradsync::stats
