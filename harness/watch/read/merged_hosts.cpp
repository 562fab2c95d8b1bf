#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "harness/base/clock.h"
#include "harness/watch/read/clock_between.h"
#include "harness/watch/read/foreign/profiled_steps.h"
#include "harness/watch/read/read_events.h"

namespace gradsync::watch {
namespace {

struct Host {
  std::string folder;
  std::vector<RankEvents> processes;

  std::vector<const RankEvents*> ranks() const { return training_processes(processes); }

  std::vector<int> rank_numbers() const {
    std::vector<int> numbers;
    for (const RankEvents* rank : ranks()) numbers.push_back(rank->rank);
    return numbers;
  }
};

std::string clock_sentence(const Host& host, const Known<ClockBetween>& clock) {
  const std::string whose =
      fmt::format("{} (ranks {})", host.folder, fmt::join(host.rank_numbers(), " "));
  if (!clock) return fmt::format("{}: its clock is not known: {}", whose, clock.why_not());
  return fmt::format("{}: its clock is known within {:.2g} ms, by what its ranks did with others",
                     whose, seconds(clock->error_ns) * 1e3);
}

void put_on_the_clock_of(const Host& first, Host& host, int number) {
  const Known<ClockBetween> clock = clock_between(first.ranks(), host.ranks());
  const std::string sentence = clock_sentence(host, clock);
  for (RankEvents& process : host.processes) {
    process.host = number;
    put_on_clock(process, clock);
    process.faults.push_back(sentence);
  }
}

// By the headers of its files alone; `worlds` gets the sizes of the world that they tell.
std::set<int> ranks_in(const std::string& folder, std::set<int>& worlds) {
  std::set<int> ranks;
  for (const JobPlace& place : places_so_far(folder)) {
    if (place.rank < 0 || !place.has_events) continue;
    ranks.insert(place.rank);
    worlds.insert(place.world_size);
  }
  return ranks;
}

}  // namespace

bool are_hosts_of_one_job(const std::vector<std::string>& folders) {
  if (folders.size() < 2 || !std::ranges::all_of(folders, is_watched_folder)) return false;
  std::set<int> ranks;
  std::set<int> worlds;
  for (const std::string& folder : folders) {
    const std::set<int> own = ranks_in(folder, worlds);
    const std::size_t others = ranks.size();
    ranks.insert(own.begin(), own.end());
    if (own.empty() || ranks.size() < others + own.size()) return false;
  }
  return worlds.size() == 1;
}

std::vector<RankEvents> read_hosts(const std::vector<std::string>& folders) {
  std::vector<Host> hosts;
  for (const std::string& folder : folders) {
    hosts.push_back({folder, read_folder(folder).ranks});
    add_profiled_steps(hosts.back().processes, folder);
  }
  std::ranges::sort(hosts, {}, [](const Host& host) { return host.rank_numbers(); });
  for (std::size_t i = 1; i < hosts.size(); ++i) {
    put_on_the_clock_of(hosts[0], hosts[i], static_cast<int>(i));
  }
  std::vector<RankEvents> all;
  for (Host& host : hosts) std::ranges::move(host.processes, std::back_inserter(all));
  std::ranges::stable_sort(all, {}, &RankEvents::rank);
  return all;
}

}  // namespace gradsync::watch
