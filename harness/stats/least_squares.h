// Linear least squares from normal equations, where columns may depend on each other.
//
// With G = A'A of columns scaled to length 1 and its eigenvalues l_k, vectors v_k:
//
//   w = sum_k v_k v_k'b / l_k,    var(w_i) = s^2 sum_k v_ki^2 / l_k,    s^2 = rss / (n - rank)
//
// over those l_k that are not 0: the shortest weights with the least residual. The condition number
// sqrt(l_max / l_min) of the columns says how much the residual is magnified in them.
//
// Weights can be separated if their columns are linearly independent: at most as many as there are
// equations. For equal columns only the sum of their weights is known, and the result says so.
//
// Source: Golub and Van Loan, "Matrix Computations", 4th edition, 5.5 and 8.5.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace gradsync::stats {

// The eigenvalues, ascending, and as many unit vectors: vectors[k * size + i] is entry i of the
// k-th.
struct EigenSystem {
  std::vector<double> values;
  std::vector<double> vectors;
};

// Returns those of a symmetric matrix, row by row, by Jacobi's rotations.
// Cost: some ten times size^3; 128 unknowns take a fraction of a second.
EigenSystem symmetric_eigen(std::vector<double> matrix, std::size_t size);

// What is known about one unknown.
struct FittedWeight {
  enum class Kind {
    Known,
    Apart,   // inseparable from others; `weight` is the mean of their weights
    Absent,  // its column is 0: it contributed nothing
  };
  Kind kind = Kind::Known;
  double weight = 0;
  double error = 0;   // one standard deviation
  int together = -1;  // of Apart: the number of its group
};

struct Fit {
  std::vector<FittedWeight> estimates;
  double left_over = 0;  // length of what is left of y, as a share of y
  double condition = 1;  // of the columns that are there; infinite where some are dependent
  std::size_t equations = 0;
};

// The equations, added one by one; only their normal matrix is kept.
class Equations {
 public:
  explicit Equations(std::size_t unknowns);

  // `row` has a coefficient for each unknown.
  void add(std::span<const double> row, double right);
  void add(const Equations& more);

  std::size_t unknowns() const { return unknowns_; }
  std::size_t count() const { return count_; }

  // Returns the shortest weights with the least residual. The residual of a y of 0 is 0.
  Fit solve() const;

  // Returns the residual of the given weights, as Fit::left_over.
  double left_over(std::span<const double> weights) const;

 private:
  std::size_t unknowns_;
  std::size_t count_ = 0;
  std::vector<double> normal_;  // A'A
  std::vector<double> right_;   // A'y
  double squared_ = 0;          // y'y
};

}  // namespace gradsync::stats
