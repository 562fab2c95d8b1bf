// What else a step wastes than synchronizations that need not be: those that have to be could move
// while backward computes, and in fewer collectives; and the job can have its ranks meet in every
// step for nothing that a step needs (chatter.h).
//
// It fails no job. A waste that would save less than 3 % of a step is left out, and so is a line of
// chatter that costs less, or that was seen in fewer than five steps. Where it is not known when
// collectives ended (NCCL's), the page has counts and no time. The seconds are the most that a step
// could be shorter, a median over steps; the rank that came last counts, which waited for the wire
// alone. Seconds of two wastes add up: what overlap saves is of what is left in fewer
// collectives.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/known.h"
#include "harness/watch/judge/verdicts/verdict.h"

namespace gradsync::watch {

struct Examined;

enum class WasteKind {
  SmallReductions,  // many collectives, where few would do
  OneBucket,        // DDP has one bucket for all gradients, which is complete with the last of them
  NoOverlap,        // all reductions begin when backward has nothing left to compute
  UnreadGradients,  // reduced, and cleared before an optimizer reads them
  // Chatter, in the order of the report:
  Barriers,
  ObjectCollectives,  // each pickles what it sends
  SmallCollectives,   // of a few bytes, as a loss that is logged
  HostReads,          // of tensors that are on a GPU
  Agreements,         // small collectives on which the step may depend: they may well be needed
};

// A line that calls for chatter in a step.
struct CallPlace {
  std::string file;  // empty: not known
  int line = 0;      // 0: not known
  int calls = 0;
  double takes_s = 0;  // all of them, in one step
  bool operator==(const CallPlace&) const = default;
};

struct Waste {
  WasteKind kind = WasteKind::NoOverlap;
  int reductions = 0;    // of one synchronization; of chatter: its calls in a step
  std::string sentence;  // without a full stop
  std::string why;       // empty: not known
  std::optional<Change> change;
  Known<double> saved_s;          // of a step, at most
  std::vector<CallPlace> places;  // of chatter, what costs most first
};

// Returns whether this is chatter.
bool is_chatter(WasteKind kind);

// Returns the wastes of the usual step, in the order of their kinds. `ranks` as comparable() has
// them; all must have a waste, and most of the steps.
std::vector<Waste> wastes_of(std::span<const Examined> ranks);

}  // namespace gradsync::watch
