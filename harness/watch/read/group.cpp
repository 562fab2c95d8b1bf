#include "harness/watch/read/group.h"

#include <algorithm>

namespace gradsync::watch {

void add_group(std::vector<Group>& groups, const Group& said) {
  const auto known =
      std::ranges::find_if(groups, [&](const Group& group) { return group.number == said.number; });
  if (known == groups.end()) {
    groups.push_back(said);
    return;
  }
  if (known->ranks.empty()) known->ranks = said.ranks;
  if (known->axis.empty()) known->axis = said.axis;
  if (known->replicas.empty()) known->replicas = said.replicas;
  if (!said.is_told) return;
  known->role = known->is_told && known->role != said.role ? GroupRole::Unknown : said.role;
  known->is_told = true;
}

}  // namespace gradsync::watch
