// What a process's memory consisted of when it held most.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/fit/blocks.h"
#include "harness/fit/phases.h"

namespace gradsync::fit {

// A page has them in this order.
enum class Category {
  Parameters,
  Gradients,  // also those that are held back until a step's last micro-batch
  OptimizerState,
  Activations,    // made before a backward, and let go within it
  Workspaces,     // of cuDNN's convolutions
  Communication,  // what DDP, FSDP and c10d ask for: buckets, gathered parameters
  Other,
  Rounding,  // what the allocator gave beyond what was asked for
};

const char* name_of(Category category);

// Bytes that one kind of caller asked for.
struct Share {
  std::string who;  // the class of a module, "AdamW", or "file.py:12"
  std::int64_t bytes = 0;
};

struct Part {
  Category category = Category::Other;
  std::int64_t bytes = 0;
  std::vector<Share> shares;  // the largest first
};

// Returns what was held right after `peak.record`, without what is empty: the parts add up to
// `peak.bytes`.
std::vector<Part> composition_at(const Highest& peak, const std::vector<Block>& blocks,
                                 const Allocations& allocations, const Phases& phases);

// Returns the module that ran when a record was made, as its model calls it: the one that asked for
// it or, in a backward, whose block was let go last before. "": not known.
std::string module_at(std::size_t record, const std::vector<Block>& blocks,
                      const Allocations& allocations);

}  // namespace gradsync::fit
