#include "harness/stats/least_squares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace gradsync::stats {
namespace {

constexpr int kMostSweeps = 60;
// Sketches are made from fp32 numbers: rounding alone leaves at least this share of y.
constexpr double kRounding = 1e-7;
// Smaller eigenvalues count as 0, for columns of length 1. Smaller: columns that differ only by
// rounding count as different.
constexpr double kDependent = 1e-10;
// A column this much shorter than the longest counts as absent.
constexpr double kAbsent = 1e-10;
// Part of a unit vector from which on two dependent columns are put into one group.
constexpr double kTogether = 0.02;

// Turns rows and columns p and q of the matrix, and of the vectors, so that its entry (p, q) is 0.
void rotate(std::vector<double>& m, std::vector<double>& vectors, std::size_t n, std::size_t p,
            std::size_t q) {
  const double off = m[p * n + q];
  if (off == 0) return;
  const double theta = (m[q * n + q] - m[p * n + p]) / (2 * off);
  const double t = (theta >= 0 ? 1.0 : -1.0) / (std::abs(theta) + std::hypot(theta, 1.0));
  const double c = 1 / std::hypot(t, 1.0);
  const double s = t * c;
  const auto turn = [&](double& a, double& b) {
    const double old = a;
    a = c * old - s * b;
    b = s * old + c * b;
  };
  for (std::size_t k = 0; k < n; ++k) turn(m[k * n + p], m[k * n + q]);
  for (std::size_t k = 0; k < n; ++k) turn(m[p * n + k], m[q * n + k]);
  for (std::size_t k = 0; k < n; ++k) turn(vectors[p * n + k], vectors[q * n + k]);
}

double off_diagonal(const std::vector<double>& m, std::size_t n) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j) sum += m[i * n + j] * m[i * n + j];
  }
  return sum;
}

// Joins those whose entry in the projection onto what is not determined says that they depend on
// each other. Returns a group's number for each, -1 for those that are determined.
std::vector<int> groups_of(const std::vector<double>& projection, std::size_t n) {
  std::vector<int> group(n, -1);
  int next = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (group[i] >= 0 || projection[i * n + i] < kTogether) continue;
    std::vector<std::size_t> open{i};
    group[i] = next;
    while (!open.empty()) {
      const std::size_t at = open.back();
      open.pop_back();
      for (std::size_t j = 0; j < n; ++j) {
        if (group[j] >= 0 || std::abs(projection[at * n + j]) < kTogether) continue;
        group[j] = next;
        open.push_back(j);
      }
    }
    ++next;
  }
  return group;
}

// The problem in columns of length 1.
struct Scaled {
  std::vector<std::size_t> present;  // unknowns
  std::vector<double> length;        // of each of these
  std::vector<double> right;
  EigenSystem eigen;
};

}  // namespace

EigenSystem symmetric_eigen(std::vector<double> matrix, std::size_t size) {
  std::vector<double> vectors(size * size, 0);
  double diagonal = 0;
  for (std::size_t i = 0; i < size; ++i) {
    vectors[i * size + i] = 1;
    diagonal += matrix[i * size + i] * matrix[i * size + i];
  }
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    if (off_diagonal(matrix, size) <= 1e-30 * diagonal) break;
    for (std::size_t p = 0; p < size; ++p) {
      for (std::size_t q = p + 1; q < size; ++q) rotate(matrix, vectors, size, p, q);
    }
  }
  std::vector<std::size_t> order(size);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::size_t i) { return matrix[i * size + i]; });
  EigenSystem eigen;
  for (const std::size_t k : order) {
    eigen.values.push_back(matrix[k * size + k]);
    const auto begin = vectors.begin() + static_cast<std::ptrdiff_t>(k * size);
    eigen.vectors.insert(eigen.vectors.end(), begin, begin + static_cast<std::ptrdiff_t>(size));
  }
  return eigen;
}

Equations::Equations(std::size_t unknowns)
    : unknowns_(unknowns), normal_(unknowns * unknowns, 0), right_(unknowns, 0) {}

void Equations::add(std::span<const double> row, double right) {
  for (std::size_t i = 0; i < unknowns_; ++i) {
    for (std::size_t j = 0; j < unknowns_; ++j) normal_[i * unknowns_ + j] += row[i] * row[j];
    right_[i] += row[i] * right;
  }
  squared_ += right * right;
  ++count_;
}

void Equations::add(const Equations& more) {
  const auto add_up = [](std::vector<double>& sum, const std::vector<double>& other) {
    std::transform(sum.begin(), sum.end(), other.begin(), sum.begin(), std::plus<>());
  };
  add_up(normal_, more.normal_);
  add_up(right_, more.right_);
  squared_ += more.squared_;
  count_ += more.count_;
}

double Equations::left_over(std::span<const double> weights) const {
  if (squared_ == 0) return 0;
  double rest = squared_;
  for (std::size_t i = 0; i < unknowns_; ++i) {
    rest -= 2 * weights[i] * right_[i];
    for (std::size_t j = 0; j < unknowns_; ++j) {
      rest += weights[i] * normal_[i * unknowns_ + j] * weights[j];
    }
  }
  return std::sqrt(std::max(0.0, rest) / squared_);
}

namespace {

Scaled scaled(const std::vector<double>& normal, const std::vector<double>& right, std::size_t n) {
  Scaled s;
  double longest = 0;
  for (std::size_t i = 0; i < n; ++i) longest = std::max(longest, normal[i * n + i]);
  for (std::size_t i = 0; i < n; ++i) {
    if (normal[i * n + i] <= kAbsent * kAbsent * longest) continue;
    s.present.push_back(i);
    s.length.push_back(std::sqrt(normal[i * n + i]));
    s.right.push_back(right[i] / s.length.back());
  }
  const std::size_t m = s.present.size();
  std::vector<double> cosines(m * m);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < m; ++j) {
      cosines[i * m + j] = normal[s.present[i] * n + s.present[j]] / (s.length[i] * s.length[j]);
    }
  }
  s.eigen = symmetric_eigen(std::move(cosines), m);
  return s;
}

}  // namespace

Fit Equations::solve() const {
  Fit fit;
  fit.equations = count_;
  fit.estimates.resize(unknowns_, {FittedWeight::Kind::Absent});
  const Scaled s = scaled(normal_, right_, unknowns_);
  const std::size_t m = s.present.size();
  std::vector<double> weights(unknowns_, 0);
  std::vector<double> variance(m, 0);
  std::vector<double> undetermined(m * m, 0);
  std::size_t rank = 0;
  for (std::size_t k = 0; k < m; ++k) {
    const double* v = &s.eigen.vectors[k * m];
    const double value = s.eigen.values[k];
    if (value < kDependent) {
      for (std::size_t i = 0; i < m; ++i) {
        for (std::size_t j = 0; j < m; ++j) undetermined[i * m + j] += v[i] * v[j];
      }
      continue;
    }
    ++rank;
    const double part = std::inner_product(v, v + m, s.right.begin(), 0.0) / value;
    for (std::size_t i = 0; i < m; ++i) {
      weights[s.present[i]] += part * v[i] / s.length[i];
      variance[i] += v[i] * v[i] / value;
    }
  }
  if (m > 0) {
    fit.condition = rank < m ? std::numeric_limits<double>::infinity()
                             : std::sqrt(s.eigen.values.back() / s.eigen.values.front());
  }
  fit.left_over = left_over(weights);
  const double share = std::max(fit.left_over, kRounding);
  const double freedom = count_ > rank ? static_cast<double>(count_ - rank) : 1.0;
  const double sigma = share * std::sqrt(squared_ / freedom);
  const std::vector<int> groups = groups_of(undetermined, m);
  for (std::size_t i = 0; i < m; ++i) {
    FittedWeight& estimate = fit.estimates[s.present[i]];
    estimate.kind = groups[i] < 0 ? FittedWeight::Kind::Known : FittedWeight::Kind::Apart;
    estimate.weight = weights[s.present[i]];
    estimate.error = sigma * std::sqrt(variance[i]) / s.length[i];
    estimate.together = groups[i];
  }
  return fit;
}

}  // namespace gradsync::stats
