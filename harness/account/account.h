// The account of a watched job: what every micro-batch of every rank weighs in the gradient that
// the optimizer reads. Pure functions of what was recorded.
//
// Each accounted step is solved by itself. Parameters are solved together as far as they go
// together: those that the same ranks have and read alike and, where they do not add up, those with
// the same weights. The value of a parameter before the step shows which ranks have the same one:
// at one place of two optimizers there may be two experts, or two stages of a pipeline.
//
// How much of each contribution is in a gradient is found by least squares (stats/least_squares.h).
// Between what autograd accumulates in micro-batch m of rank r, g(r, m), and what the optimizer
// reads, y, everything is linear: sums, means, shards, scalings. With S the sketch (sketch.h),
//
//   S(y)_b = sum over (r, m) of w(r, m) S(g(r, m))_b      for each of 64 buckets b, each parameter
//
// where w are the weights sought: 64 equations for each parameter, W x M unknowns for all of them.
// Each parameter's equations are divided by its own size first, since rounding is relative.
//
// The equations leave rounding over, 1e-7 of y in fp32. It is not the 18 % by which a sketch of 64
// buckets misses a length: an exact sum leaves nothing over in any bucket. Micro- batches drawn
// alike have gradients with cosine c, and M of them a condition of about sqrt(1 + M c / (1 - c)).
// So at c = 0.99 and M = 32 it is 57, and weights in fp32 are good to 1e-5.
//
// Where y is NOT a sum of them, the 64 buckets count: a foreign part of share q of y (in length)
// moves each weight by about q sqrt(1 / (64 P)) for P parameters, and "left over" measures q with a
// relative standard deviation of 1 / sqrt(2 (64 P - W M)).
//
// Identifiability. A parameter of n < 64 elements has n equations. The same batch on two ranks
// gives equal columns: only the sum of their weights is known, and that is said. Twice as many
// equations as unknowns are asked for.
//
// An account cannot see what happens before a contribution is accumulated, above all a wrong
// divisor inside the loss, which is in both sides of the equation. Nor can it see a foreign part
// that happens to be a combination of contributions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/account/records.h"
#include "harness/stats/least_squares.h"

namespace gradsync::account {

// A rank's part of a gradient whose parts were scaled apart.
struct ShardFactor {
  int rank = 0;
  double factor = 1;  // of the smallest one
};

// Parameters with the same weights.
struct WeightGroup {
  std::vector<std::string> parameters;  // names
  std::int64_t elements = 0;
  bool is_rounded = false;   // its gradients are of 16 bits
  std::vector<int> ranks;    // that have these parameters
  std::vector<int> readers;  // of these, those that read this gradient
  // By place in `ranks`, then by micro-batch; absent ones where there is none.
  std::vector<std::vector<stats::FittedWeight>> weights;
  std::vector<std::vector<std::int64_t>> tokens;  // likewise, 0: not known; empty: none is
  double left_over = 0;
  double condition = 1;
  std::size_t equations = 0;
  // Other parts of the gradient, where they explain what the weights leave over.
  std::optional<double> decay;  // so much of the parameters themselves
  bool is_of_the_step_before = false;
  bool has_the_step_before = false;  // all of what the optimizer read then, once more
  // The weights hold within each rank's part, and these parts have other factors. Empty: they have
  // not.
  std::vector<ShardFactor> shards;
  std::size_t divided = 0;  // parameters of which several ranks have a part
  // Each parameter is one number throughout, as a bias that begins with 0: that ranks begin with
  // the same one does not make it one parameter.
  bool is_constant = false;

  std::size_t unknowns() const;  // that are there
  double mean() const;           // weight, of those that are there; 0 without any
};

struct StepAccount {
  std::int64_t step = 0;
  int world_size = 0;
  int micro_batches = 0;
  double loss_scale = 1;
  int clippings = 0;
  double max_norm = 0;  // as AccountedStep's, as the next two
  double clipped_by = 0;
  double scaled_after = 0;
  std::map<int, std::vector<double>> loss_weights;  // as AccountedStep's, by rank
  bool is_used = false;
  std::string comm_hook;             // as AccountedStep's
  std::vector<std::string> drifted;  // parameters whose ranks had them alike at first
  std::vector<int> places;           // as AccountedStep's, as the next three
  std::vector<int> functions;
  std::vector<GradientCall> calls;
  bool is_wrapped = false;
  std::vector<WeightGroup> groups;  // those of most ranks first, of these the largest
  std::string why_not;              // set where there are none
};

// Returns the accounts of the steps that were recorded, in their order.
std::vector<StepAccount> solve_accounts(const std::vector<AccountRecords>& ranks);

}  // namespace gradsync::account
