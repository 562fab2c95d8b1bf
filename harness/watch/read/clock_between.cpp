#include "harness/watch/read/clock_between.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "harness/base/clock.h"
#include "harness/launch/clock_offset.h"

namespace gradsync::watch {
namespace {

constexpr std::int64_t kWindowNs = 10'000'000'000;
constexpr std::int64_t kSeesEndNs = 50'000;

bool needs_every_rank(std::string_view operation) {
  return operation == "all_reduce" || operation == "all_gather" || operation == "reduce_scatter" ||
         operation == "barrier";
}

// A process group as two hosts can compare it; ranks are empty where they were not recorded.
using GroupKey = std::pair<std::string, std::vector<int>>;

GroupKey key_of(const Event& collective, const std::vector<Group>& groups) {
  const auto group = std::ranges::find(groups, collective.object, &Group::number);
  return {collective.detail, group == groups.end() ? std::vector<int>{} : group->ranks};
}

using Collectives = std::map<GroupKey, std::vector<const Event*>>;

// Returns the collectives of one rank: those of each group, in their order.
Collectives collectives_of(const RankEvents& rank) {
  Collectives found;
  for (const Event& event : rank.events) {
    const bool is_told = event.object != 0 || !rank.is_traced;
    if (event.kind == EventKind::Collective && is_told)
      found[key_of(event, rank.groups)].push_back(&event);
  }
  return found;
}

// The same collective on some of the ranks of a host.
struct Meeting {
  const Event* what = nullptr;
  std::int64_t last_begin_ns = std::numeric_limits<std::int64_t>::min();
  std::int64_t first_end_ns = std::numeric_limits<std::int64_t>::max();

  void add(const Event& event) {
    what = &event;
    last_begin_ns = std::max(last_begin_ns, begun_ns(event));
    first_end_ns = std::min(first_end_ns, complete_ns(event));
  }

  std::int64_t together_ns() const { return first_end_ns - last_begin_ns; }
};

bool is_the_same(const Event& a, const Event& b) {
  return a.name == b.name && a.bytes == b.bytes;
}

// What the ranks of one host did in each group, as far as they agree on it.
std::map<GroupKey, std::vector<Meeting>> meetings_of(const std::vector<const RankEvents*>& ranks) {
  std::map<GroupKey, std::vector<Meeting>> meetings;
  for (const RankEvents* rank : ranks) {
    for (const auto& [key, events] : collectives_of(*rank)) {
      std::vector<Meeting>& known = meetings.try_emplace(key, events.size()).first->second;
      known.resize(std::min(known.size(), events.size()));
      for (std::size_t i = 0; i < known.size(); ++i) {
        if (known[i].what != nullptr && !is_the_same(*known[i].what, *events[i])) {
          known.resize(i);
          break;
        }
        known[i].add(*events[i]);
      }
    }
  }
  return meetings;
}

struct Bounds {
  std::int64_t at_ns;  // of our clock
  std::int64_t least_ns;
  std::int64_t most_ns;
};

bool has_an_end(const Meeting& meeting) {
  return meeting.first_end_ns > begun_ns(*meeting.what);
}

Bounds bounds_of(const Meeting& a, const Meeting& b) {
  if (a.what->on_gpu && b.what->on_gpu) {
    const std::int64_t between_ns = b.first_end_ns - a.first_end_ns;
    const std::int64_t wire_ns = std::max(kSeesEndNs, std::min(a.together_ns(), b.together_ns()));
    return {a.last_begin_ns, between_ns - wire_ns, between_ns + wire_ns};
  }
  return {a.last_begin_ns, b.last_begin_ns - a.first_end_ns, b.first_end_ns - a.last_begin_ns};
}

// What each collective that both have says, by our time.
std::vector<Bounds> bounds_of(const std::map<GroupKey, std::vector<Meeting>>& ours,
                              const std::map<GroupKey, std::vector<Meeting>>& theirs) {
  std::vector<Bounds> bounds;
  for (const auto& [key, mine] : ours) {
    const auto found = theirs.find(key);
    if (found == theirs.end()) continue;
    for (std::size_t i = 0; i < std::min(mine.size(), found->second.size()); ++i) {
      const Meeting& a = mine[i];
      const Meeting& b = found->second[i];
      if (!is_the_same(*a.what, *b.what)) break;
      if (!needs_every_rank(a.what->name) || !has_an_end(a) || !has_an_end(b)) continue;
      bounds.push_back(bounds_of(a, b));
    }
  }
  std::ranges::sort(bounds, {}, &Bounds::at_ns);
  return bounds;
}

// The offset that all of these allow; nothing where they contradict each other.
std::optional<launch::ClockOffset> offset_within(std::span<const Bounds> bounds) {
  std::int64_t least_ns = std::numeric_limits<std::int64_t>::min();
  std::int64_t most_ns = std::numeric_limits<std::int64_t>::max();
  std::int64_t at_ns = 0;
  for (const Bounds& each : bounds) {
    least_ns = std::max(least_ns, each.least_ns);
    most_ns = std::min(most_ns, each.most_ns);
    at_ns = each.at_ns;
  }
  if (least_ns > most_ns) return std::nullopt;
  return launch::ClockOffset{at_ns, least_ns + (most_ns - least_ns) / 2,
                             (most_ns - least_ns + 1) / 2};
}

}  // namespace

Known<ClockBetween> clock_between(const std::vector<const RankEvents*>& ours,
                                  const std::vector<const RankEvents*>& theirs) {
  const std::vector<Bounds> bounds = bounds_of(meetings_of(ours), meetings_of(theirs));
  if (bounds.empty()) return Unknown{"no collective was seen of which both hosts know the end"};
  const std::int64_t first_ns = bounds.front().at_ns;
  const std::int64_t last_ns = bounds.back().at_ns;
  const auto early = std::ranges::partition_point(
      bounds, [&](const Bounds& each) { return each.at_ns <= first_ns + kWindowNs; });
  const auto late = std::ranges::partition_point(
      bounds, [&](const Bounds& each) { return each.at_ns < last_ns - kWindowNs; });
  const auto before = offset_within({bounds.begin(), early});
  const auto after = offset_within({late, bounds.end()});
  if (!before || !after) return Unknown{"what their collectives say contradicts itself"};
  const launch::HostClock clock = launch::describe_clock(*before, *after);
  return ClockBetween{nanoseconds(*clock.offset_s), nanoseconds(*clock.error_s)};
}

void put_on_clock(RankEvents& process, const Known<ClockBetween>& clock) {
  process.clock_error_ns.reset();
  if (!clock) return;
  shift(process, -clock->offset_ns);
  process.clock_error_ns = clock->error_ns;
}

}  // namespace gradsync::watch
