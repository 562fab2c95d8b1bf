// Things that belong together, found among others.
#pragma once

#include <functional>
#include <map>
#include <ranges>
#include <type_traits>
#include <vector>

namespace gradsync {

// Returns pointers to `things`, those with the same key together: groups in the order of the first
// of each, things in the order in which they came. `key_of`: a function or a member of a thing.
// Things of a constant range stay constant.
template <std::ranges::forward_range Things, typename KeyOf>
auto grouped(Things&& things, const KeyOf& key_of) {
  using Thing = std::remove_reference_t<std::ranges::range_reference_t<Things>>;
  using Key = std::decay_t<std::invoke_result_t<const KeyOf&, const Thing&>>;
  std::vector<std::vector<Thing*>> groups;
  std::map<Key, std::size_t> known;
  for (Thing& thing : things) {
    const auto [place, is_new] = known.try_emplace(std::invoke(key_of, thing), groups.size());
    if (is_new) groups.emplace_back();
    groups[place->second].push_back(&thing);
  }
  return groups;
}

}  // namespace gradsync
