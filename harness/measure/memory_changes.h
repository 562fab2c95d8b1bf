// What tensors held over one micro-batch, change by change, so that it can be compared with the
// next: whether a micro-batch repeats the one before to the byte.
//
// Nothing is merged, as a timeline merges (memory_timeline.h), and times are left out. The model of
// a GPU's allocator goes by what was cached before, so its blocks at the end belong to it: from
// equal blocks, equal requests lead to equal ones.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "harness/measure/caching_allocator_model.h"
#include "harness/measure/memory_category.h"
#include "harness/measure/memory_timeline.h"

namespace gradsync::measure {

struct MemoryChange {
  CategoryBytes bytes{};                     // held after it
  std::shared_ptr<const MemoryPlace> place;  // never null
  CategoryBytes host{};                      // likewise held, in the account `host`
};

struct MemoryChanges {
  std::vector<MemoryChange> changes;            // the first is the state at the beginning
  CachingAllocatorModel::Blocks reserved_like;  // at the end; empty: nothing was estimated
};

// Returns whether both have the same changes in the same phases and units, whatever their steps and
// micro-batches, and the same blocks at the end. Cost: one pass over both.
inline bool repeats(const MemoryChanges& changes, const MemoryChanges& before) {
  const auto is_same = [](const MemoryChange& one, const MemoryChange& other) {
    return one.bytes == other.bytes && one.host == other.host &&
           one.place->phase == other.place->phase && one.place->unit == other.place->unit;
  };
  return changes.reserved_like == before.reserved_like &&
         std::ranges::equal(changes.changes, before.changes, is_same);
}

}  // namespace gradsync::measure
