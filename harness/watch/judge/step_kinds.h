// Steps that are not like the usual one: with other micro-batches, or with gradients that are
// cleared before an optimizer reads them, as at the end of the data.
#pragma once

#include <string>
#include <vector>

#include "harness/watch/judge/steps/counts.h"
#include "harness/watch/read/event.h"

namespace gradsync::watch {

struct StepKind {
  int micro_batches = 0;
  int steps = 0;     // of this kind,
  int all = 0;       // of so many
  int every = 0;     // it is the last of every so many; 0: it is not
  int cleared = 0;   // gradients of its first micro-batches, so many, were cleared and never read
  std::string file;  // where; empty: not known
  int line = 0;      // 0: not known
};

// Returns the kinds of steps of a job that trains one model, the commonest first, without the usual
// kind.
std::vector<StepKind> other_kinds(const RankEvents& process, const std::vector<StepCounts>& counts);

// "5 of 12 steps have 6 micro-batches: gradients of the first 2 are cleared unread, zero_grad in
// train.py line 25"
std::vector<std::string> step_kind_texts(const std::vector<StepKind>& kinds);

}  // namespace gradsync::watch
