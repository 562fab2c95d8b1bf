#include "harness/watch/judge/examined.h"

#include <algorithm>
#include <map>

#include "harness/base/clock.h"
#include "harness/watch/judge/axes.h"
#include "harness/watch/judge/on_gpu.h"
#include "harness/watch/judge/steps/usual_step.h"

namespace gradsync::watch {
namespace {

bool went_through_the_same_steps(const Examined& a, const Examined& b) {
  return std::equal(a.counts.begin(), a.counts.end(), b.counts.begin(), b.counts.end(),
                    [](const StepCounts& one, const StepCounts& other) {
                      return one.micro_batches == other.micro_batches &&
                             one.synchronized == other.synchronized;
                    });
}

// How well times of two ranks can be compared; nothing where they cannot.
std::optional<std::int64_t> error_between(const RankEvents& a, const RankEvents& b) {
  if (a.host == b.host) return 0;
  if (!a.clock_error_ns || !b.clock_error_ns) return std::nullopt;
  return *a.clock_error_ns + *b.clock_error_ns;
}

std::vector<int> replicas_of(const RankEvents& rank, const std::vector<StepCounts>& counts) {
  const auto usual = usual_step(counts);
  if (!usual) return {};
  for (const Axis& axis : axes_of(*usual->example, rank.groups)) {
    if (axis.role == GroupRole::Replicate) return axis.ranks;
  }
  return {};
}

}  // namespace

Examined::Examined(const RankEvents& seen)
    : events(&seen),
      steps(cut_into_steps(seen.events)),
      counts(count_steps(steps)),
      models(judge_models(seen, steps)),
      verdicts(judge(seen, steps, counts)),
      replicas(replicas_of(seen, counts)) {
  place_on_gpu(counts, seen.gpu);
  put_worst_first(verdicts, models);
}

std::vector<const RankEvents*> events_of(const std::vector<Examined>& ranks) {
  std::vector<const RankEvents*> events;
  for (const Examined& rank : ranks) events.push_back(rank.events);
  return events;
}

std::vector<Examined> examined(const std::vector<RankEvents>& processes) {
  std::vector<Examined> ranks;
  for (const RankEvents* process : training_processes(processes)) ranks.emplace_back(*process);
  return ranks;
}

std::span<const Examined> comparable(const std::vector<Examined>& ranks) {
  const bool are_alike = std::all_of(ranks.begin(), ranks.end(), [&](const Examined& rank) {
    return went_through_the_same_steps(rank, ranks[0]);
  });
  return {ranks.data(), are_alike ? ranks.size() : 1};
}

std::optional<double> waited_s(std::span<const Examined> ranks, std::size_t index,
                               std::optional<std::int64_t> StepCounts::*time_ns) {
  std::map<std::vector<int>, std::int64_t> least_ns;
  for (const Examined& rank : ranks) {
    const auto& known_ns = rank.counts[index].*time_ns;
    if (!known_ns) return std::nullopt;
    const auto of_group = least_ns.emplace(rank.replicas, *known_ns).first;
    of_group->second = std::min(of_group->second, *known_ns);
  }
  std::int64_t longest_ns = 0;
  for (const auto& [replicas, waited_ns] : least_ns) longest_ns = std::max(longest_ns, waited_ns);
  return seconds(longest_ns);
}

Known<int> latest_rank(std::span<const Examined> ranks, std::size_t index) {
  const Examined* latest = nullptr;
  for (const Examined& rank : ranks) {
    const StepCounts& step = rank.counts[index];
    if (!step.exposed_ns || step.last_begun_ns == 0) return Unknown{kNoEnds};
    if (latest == nullptr || step.last_begun_ns > latest->counts[index].last_begun_ns) {
      latest = &rank;
    }
  }
  for (const Examined& rank : ranks) {
    const auto error_ns = error_between(*rank.events, *latest->events);
    if (!error_ns) return Unknown{"the clocks of its hosts could not be compared"};
    const std::int64_t before_ns =
        latest->counts[index].last_begun_ns - rank.counts[index].last_begun_ns;
    if (*error_ns > 0 && before_ns <= *error_ns) {
      return Unknown{"two came closer to each other than the clocks of their hosts are known"};
    }
  }
  return latest->events->rank;
}

}  // namespace gradsync::watch
