// Turns of gates that never ran, made up with a fixed seed: what the truth is, is then known.
#pragma once

#include <cstdint>

#include "harness/gate/settings.h"
#include "harness/gate/traces.h"
#include "harness/gate/turns.h"

namespace gradsync::gate {

struct Synthetic {
  double extra_work = 0;
  int rows = 2;
  int starts = 10;
  int turns_per_start = 4;
  int block_steps = 20;
  int passes = 4;
  double drift_per_turn = 0;  // all arms grow slower by this share from turn to turn
  double start_sd = 0;        // of what layout and placement do to one arm in one start
  double third_place = 0;     // whoever comes up third is faster by this share
  double block_sd = 0.003;    // of the mood that the steps of a block share
  double step_sd = 0.01;
  std::uint64_t seed = 1;
};

// Returns a family of steps of about 10 ms: log-normal in each of the three ways above, and every
// 200th step or so twice as long.
TurnFamily synthetic_family(const Synthetic& synthetic);

// Returns settings with two looks, at 8 and 24 turns in starts of 4, and 16 turns to confirm: a
// gate of ten starts.
Settings ten_starts();

// Returns the gates of ten starts in one such family.
GatePool synthetic_pool(const Synthetic& synthetic);

}  // namespace gradsync::gate
