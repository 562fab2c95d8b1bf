// Records of a job that never ran: gradients drawn at random, and what an optimizer would read of
// them with given weights.
#pragma once

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "harness/account/records.h"

namespace gradsync::test {

struct MadeAccount {
  int ranks = 2;
  int micro_batches = 4;
  std::vector<std::int64_t> elements{200, 300};  // of each parameter
  int steps = 1;
  double alike = 0.5;  // share of a gradient that all have in common
  bool is_sharded = false;
  std::string dtype = "float32";
  // Weight of (parameter, rank, micro-batch) in what `reader` reads, beyond what the loss says.
  std::function<double(int parameter, int rank, int micro_batch)> weight = [](int, int, int) {
    return 1.0;
  };
  // What is added to an element that is read.
  std::function<double(double value)> besides = [](double) { return 0.0; };
  double rounding = 0;  // standard deviation of what it adds to an element that is read, beside
                        // contributions of the order of 1
  bool is_the_same_batch = false;  // on all ranks
  int late = 0;                    // steps by which what is read comes late
  double kept = 0;                 // of what was read in the step before

  std::vector<account::AccountRecords> records(unsigned seed = 1) const;
};

// Returns the steps of one job, and behind them those of another one with as many ranks.
std::vector<account::AccountRecords> joined(std::vector<account::AccountRecords> first,
                                            const std::vector<account::AccountRecords>& then);

}  // namespace gradsync::test
