// Whether ranks that began with the same parameters still have the same, by the bit hashes that
// each took at a few steps (read/tracked_parameters.h). Nothing is inferred from collectives here.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "harness/watch/read/event.h"

namespace gradsync::watch {

enum class Fate {
  Equal,    // at each look
  Drifts,   // equal at first, and no longer
  Rounds,   // so, by no more than unlike hardware rounds otherwise
  Rejoins,  // equal at first, different in between, and equal again
  Own,      // of each rank, from the first look on: an expert's, a stage's, a shard's
  Unknown,  // seen by one rank alone, or not told from its own: a constant says nothing
};

// What became of one parameter. Steps count those of its optimizer.
struct ParameterFate {
  const TrackedOptimizer* optimizer = nullptr;  // of the lowest rank that has it
  const TrackedParameter* parameter = nullptr;
  std::int64_t object = 0;  // the optimizer's number
  Fate fate = Fate::Unknown;
  std::int64_t equal_until = 0;                // of Drifts and Rejoins: the last look that is equal
  std::int64_t differs_from = 0;               // and the first one behind it
  std::vector<std::int64_t> equal_again = {};  // of Rejoins
  bool is_never_equal = false;                 // of Own: on all ranks, at any of some looks
  bool is_stepped_by_some = false;             // of the ranks, and others have its gradient
};

// Returns what became of each parameter and buffer that several ranks have whole: of what a wrapper
// reduces among the ranks of its group, of everything else among all of them. Ranks of which each
// has a value of its own at first are not compared with each other. Leaves out parameters that no
// rank steps.
std::vector<ParameterFate> fates_of(std::span<const RankEvents* const> ranks);

// Returns whether it moves gradients, or copies of them, in one of the first steps.
bool moves_gradients(const Exchange& exchange);

// Returns whether what the job exchanged is this parameter, or its gradient.
bool is_of(const ParameterFate& of, const Exchange& exchange);

// Returns whether the job exchanges this parameter, or its gradient, by hand; in its first steps.
bool is_exchanged(const ParameterFate& of, const RankEvents& rank);

// Returns whether ranks keep it equal: by a wrapper, or by hand.
bool is_kept_equal(const ParameterFate& of, const RankEvents& rank);

// Returns the exchanges of a step by hand, of the lowest rank, that change nothing: of gradients
// that wrappers reduce, and had made equal on all ranks before. In order of their lines.
std::vector<const Exchange*> exchanges_of_equals(std::span<const RankEvents* const> ranks);

}  // namespace gradsync::watch
