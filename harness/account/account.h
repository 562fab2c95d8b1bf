// The account of a watched job: what every micro-batch of every rank weighs in the gradient that
// the optimizer reads. Pure functions of what was recorded.
//
// Each accounted step is solved by itself. Parameters are solved together as far as they go
// together: those that the same ranks have and read alike and, where they do not add up, those with
// the same weights. Which ranks have the same parameter is told by its value before the step: at
// one place of two optimizers there may be two experts, or two stages of a pipeline.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/account/least_squares.h"
#include "harness/account/records.h"

namespace gradsync::account {

// Parameters with the same weights.
struct WeightGroup {
  std::vector<std::string> parameters;  // names
  std::int64_t elements = 0;
  bool is_rounded = false;   // its gradients are of 16 bits
  std::vector<int> ranks;    // that have these parameters
  std::vector<int> readers;  // of these, those that read this gradient
  // By place in `ranks`, then by micro-batch; absent ones where there is none.
  std::vector<std::vector<Estimate>> weights;
  std::vector<std::vector<std::int64_t>> tokens;  // likewise, 0: not known; empty: none is
  double left_over = 0;
  double condition = 1;
  std::size_t equations = 0;
  // What else the gradient is made of, where that explains what the weights leave over.
  std::optional<double> decay;  // so much of the parameters themselves
  bool is_of_the_step_before = false;

  std::size_t unknowns() const;  // that are there
  double mean() const;           // weight, of those that are there; 0 without any
};

struct StepAccount {
  std::int64_t step = 0;
  int world_size = 0;
  int micro_batches = 0;
  double loss_scale = 1;
  int clippings = 0;
  bool is_used = false;
  std::string comm_hook;  // as AccountedStep's
  std::string drifted;    // the first parameter whose ranks had it alike and have not; "": none
  std::vector<WeightGroup> groups;  // those of most ranks first, of these the largest
  std::string why_not;              // set where there are none
};

// Returns the accounts of the steps that were recorded, in their order.
std::vector<StepAccount> solve_accounts(const std::vector<AccountRecords>& ranks);

}  // namespace gradsync::account
