// How much of each contribution is in a gradient: weighted least squares over sketches.
//
// Between what autograd accumulates in micro-batch m of rank r, g(r, m), and what the optimizer
// reads, y, everything is linear: sums, means, shards, scalings. With S the sketch,
//
//   S(y)_b = sum over (r, m) of w(r, m) S(g(r, m))_b      for each of 64 buckets b, each parameter
//
// where w are the weights sought: 64 equations for each parameter, W x M unknowns for all of them.
// Each parameter's equations are divided by its own size first, since rounding is relative.
//
// The estimate. With G = A'A of columns scaled to length 1 and its eigenvalues l_k, vectors v_k:
//   w = sum_k v_k v_k'b / l_k,    var(w_i) = s^2 sum_k v_ki^2 / l_k,    s^2 = rss / (n - rank)
// s is what the equations leave over: rounding, 1e-7 of y in fp32. It is not the 18 % by which a
// sketch of 64 buckets misses a length: an exact sum leaves nothing over in any bucket. How far
// that is magnified is the condition number sqrt(l_max / l_min) of the columns: micro-batches drawn
// alike have gradients with cosine c, and M of them a condition of about sqrt(1 + M c / (1 - c)).
// So at c = 0.99 and M = 32 it is 57, and weights in fp32 are good to 1e-5.
//
// Where y is NOT a sum of them, the 64 buckets count: a foreign part of share q of y (in length)
// moves each weight by about q sqrt(1 / (64 P)) for P parameters, and "left over" measures q with a
// relative standard deviation of 1 / sqrt(2 (64 P - W M)).
//
// Identifiability. Weights can be told apart where columns are linearly independent: at most as
// many as there are equations (a parameter of n < 64 elements has n). The same batch on two ranks
// gives equal columns: only the sum of their weights is known, and that is said. Twice as many
// equations as unknowns are asked for.
//
// What cannot be seen: whatever happens before a contribution is accumulated, above all a wrong
// divisor inside the loss, which is in both sides of the equation; and a foreign part that happens
// to be a combination of contributions.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace gradsync::account {

// The eigenvalues, ascending, and as many unit vectors: vectors[k * size + i] is entry i of the
// k-th.
struct EigenSystem {
  std::vector<double> values;
  std::vector<double> vectors;
};

// Returns those of a symmetric matrix, row by row, by Jacobi's rotations.
// Cost: some ten times size^3; 128 unknowns take a fraction of a second.
EigenSystem symmetric_eigen(std::vector<double> matrix, std::size_t size);

// What is known of one unknown.
struct Estimate {
  enum class Kind {
    Known,
    Apart,   // not to be told apart from others; `weight` is the mean of their weights
    Absent,  // its column is 0: it contributed nothing
  };
  Kind kind = Kind::Known;
  double weight = 0;
  double error = 0;   // one standard deviation
  int together = -1;  // of Apart: the number of its group
};

struct Fit {
  std::vector<Estimate> estimates;
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

  // Returns the weights of least length that leave least over. What is left of a y of 0 is 0.
  Fit solve() const;

  // Returns what the given weights leave over, as Fit::left_over.
  double left_over(std::span<const double> weights) const;

 private:
  std::size_t unknowns_;
  std::size_t count_ = 0;
  std::vector<double> normal_;  // A'A
  std::vector<double> right_;   // A'y
  double squared_ = 0;          // y'y
};

}  // namespace gradsync::account
