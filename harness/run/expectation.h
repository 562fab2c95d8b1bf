// Checks a trial's ledger against what its strategy declares. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/comm/ledger.h"
#include "harness/results/records.h"

namespace gradsync::run {

// What one micro-batch communicates under DDP.
struct Declared {
  std::vector<std::int64_t> bucket_bytes;  // of the Reducer, in the order they are reduced
  int buffer_broadcasts = 0;               // per synchronized forward; one per dtype
  std::int64_t buffer_bytes = 0;           // their sum
  std::int64_t unused_map_bytes = 0;       // find_unused_parameters: one more all_reduce; 0: none
};

// Returns the collectives of one step whose micro-batch i reduces gradients where syncs[i]. Buffers
// are broadcast before micro-batch i when the micro-batch before it was a synchronized one (the
// last of the step before, for the first).
results::OpCounts expected_of_step(const Declared& declared, const std::vector<bool>& syncs);

// Returns the collectives of `step` that the ledger holds, set-up and barriers apart.
results::OpCounts counts_of_step(const std::vector<comm::CommEvent>& events, int step);

// Returns the first difference in words, naming micro-batch and operation, or "" where the step's
// events are exactly those declared, bucket by bucket.
std::string first_mismatch(const Declared& declared, const std::vector<bool>& syncs,
                           const std::vector<comm::CommEvent>& events, int step);

}  // namespace gradsync::run
