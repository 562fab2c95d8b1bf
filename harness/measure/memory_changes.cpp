#include "harness/measure/memory_changes.h"

#include <algorithm>

namespace gradsync::measure {
namespace {

bool is_same_change(const MemoryChange& change, const MemoryChange& before) {
  return change.bytes == before.bytes && change.host == before.host &&
         change.place->phase == before.place->phase && change.place->unit == before.place->unit;
}

}  // namespace

bool repeats(const MemoryChanges& changes, const MemoryChanges& before) {
  return changes.reserved_like == before.reserved_like &&
         std::ranges::equal(changes.changes, before.changes, is_same_change);
}

}  // namespace gradsync::measure
