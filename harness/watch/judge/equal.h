// Whether one step's gradient is the same however its samples are split: over ranks, and into
// micro-batches. This shows errors inside of the loss, which an account cannot see: a loss that is
// normalized by a micro-batch's own count instead of the step's is another loss when the samples
// are split otherwise. Pure functions of what was recorded.
//
// They compare sketches of the gradients that the optimizer reads in the first step. With r of one
// split and g of another, over all parameters,
//
//   D(f)^2 = |g - f r|^2 / |f r|^2,    f = <r, g> / <r, r>
//
// is 0 where g is f times r, and else as large as the difference within some 18 % / sqrt(P) of
// itself for P parameters (sketch.h). Where no f does it, r is sought among the contributions of g:
// r = sum of w c, as in account.h. Weights that add up say that the samples are the same and
// count otherwise; none that do, that the samples, or what is computed of them, are not the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/account/account.h"
#include "harness/account/records.h"
#include "harness/account/sought.h"

namespace gradsync::watch {

struct Split {
  int ranks = 1;
  int micro_batches = 1;
  int micro_batch_size = 1;  // samples of each
};

// "2 ranks x 4 micro-batches", "1 rank x 1 micro-batch"
std::string split_text(const Split& split);

// What a split's ranks recorded of their first step.
struct FirstStep {
  Split split;
  std::vector<account::Sought> parameters;
  std::vector<std::vector<std::int64_t>> tokens;  // by rank and micro-batch; 0: not known
  account::StepAccount account;                   // of that step
};

// Returns it.   Errors: EnvironmentError where nothing was recorded, where ranks read different
// gradients, or where it is another split's.
FirstStep first_step_of(const Split& split, const std::vector<account::AccountRecords>& ranks);

enum class EqualKind {
  Equal,         // within rounding
  Factor,        // but for a factor
  OtherWeights,  // the same samples, of which some count for more
  OtherSamples,  // or other computation
  OtherStart,    // parameters differ before the step
};

// How two gradients differ, over all parameters.
struct GradientDifference {
  double factor = 1;      // f, which brings them closest
  double difference = 0;  // D(1)
  double left_over = 0;   // D(f)
  std::string worst;      // the parameter that differs most, by D(1) of its own
};

struct EqualVerdict {
  EqualKind kind = EqualKind::Equal;
  std::string sentence;                             // without a full stop
  std::string why;                                  // "" where there is nothing to add
  std::optional<GradientDifference> gradient = {};  // none: they are of other parameters
};

// Returns the verdict on a split against the one that is taken for right.
EqualVerdict compare_first_steps(const FirstStep& right, const FirstStep& other);

// Whether that is a fault of the job's. Neither equal nor a fault: nothing can be said.
bool is_unequal(EqualKind kind);

}  // namespace gradsync::watch
