// Gates whose truth is known and whose noise is real: made of the steps of stored A/A starts.
//
// A start of a simulated gate is made of stored starts of one file and row, which of the three arms
// is which drawn anew, cut into turns as the settings have them; a row's arms are first made alike
// by a factor each. Then the candidate of a row is slowed: all the time, or in every n-th step
// since its ranks began, warm-up and untimed steps counted as the gate takes them. Rows draw their
// starts independently of each other, and a start may be drawn more than once: rates so found say
// what the rule does with this noise, not how often such a machine has it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/gate/cost.h"
#include "harness/gate/settings.h"
#include "harness/gate/traces.h"
#include "harness/gate/verdict.h"

namespace gradsync::gate {

// What is wrong with the candidate in one row.
struct Slowdown {
  double effect = 0;        // of all steps, as a share
  int period = 0;           // of steps that take longer; 0: none do
  double amount = 0;        // by which these do, as a share
  int phase = 0;            // of them, from 0 to period - 1
  double own_start_sd = 0;  // by which the candidate's starts vary beside that, as a share
};

// What a simulated gate came to.
struct Simulated {
  Decision decision;
  double duration_s = 0;  // with the counts before, as far as turns, starts and switches go
};

class StoredNoise {
 public:
  // One turn of a stored start as its passes, by arm: logarithms of step times.
  struct Passes {
    std::vector<std::array<std::vector<double>, kArms.size()>> of;
  };
  struct Row {
    std::vector<std::vector<Passes>> starts;
    double step_s = 0;  // mean
  };

  // Reads all files of `folder` with stored turns, and makes arms alike. `rows`: which rows to
  // keep, by their place in the files; none: all.
  explicit StoredNoise(const std::string& folder, const std::vector<std::size_t>& rows = {});

  std::size_t files() const { return files_.size(); }
  std::size_t rows() const { return files_.front().size(); }

  // Returns what becomes of a gate on the noise of this file whose row `slowed` has `slowdown`.
  // Looks end where `budget_s` does. Draws depend on the seed alone.
  Simulated run(std::size_t file, std::size_t slowed, const Slowdown& slowdown,
                const Settings& settings, double budget_s, std::uint64_t seed) const;

 private:
  std::vector<std::vector<Row>> files_;
};

}  // namespace gradsync::gate
