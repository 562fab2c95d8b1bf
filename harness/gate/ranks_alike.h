// Ranks that do the same share an entry.
#pragma once

#include <utility>
#include <vector>

namespace gradsync::gate {

// Adds the ranks of `each` to the entry of `groups` that differs in its ranks alone; adds `each`
// where there is none. An Entry has its `ranks`, and compares by all of its fields.
template <typename Entry>
void add_to_alike(std::vector<Entry>& groups, Entry each) {
  const std::vector<int> ranks = each.ranks;
  for (Entry& group : groups) {
    each.ranks = group.ranks;
    if (group != each) continue;
    group.ranks.insert(group.ranks.end(), ranks.begin(), ranks.end());
    return;
  }
  each.ranks = ranks;
  groups.push_back(std::move(each));
}

}  // namespace gradsync::gate
