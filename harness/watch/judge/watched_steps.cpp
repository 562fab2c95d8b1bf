#include "harness/watch/judge/watched_steps.h"

#include <algorithm>
#include <limits>

#include "harness/watch/judge/examined.h"
#include "harness/watch/judge/steps/job_counts.h"
#include "harness/watch/judge/watched.h"

namespace gradsync::watch {

// What began a further step has ended the one before: no second optimizer can step with it.
std::vector<RankEvents> steps_for_good(std::vector<RankEvents> processes) {
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (const RankEvents* process : training_processes(processes)) {
    least = std::min(least, cut_into_steps(process->events).steps.size());
  }
  if (least < 2 || least == std::numeric_limits<std::size_t>::max()) return {};
  return first_steps(std::move(processes), least - 1);
}

std::vector<WatchedStep> watched_steps(const std::vector<RankEvents>& processes) {
  const std::vector<Examined> ranks = examined(processes);
  std::vector<WatchedStep> steps;
  if (ranks.empty()) return steps;
  const std::vector<Series> series = series_of_steps(summarize(processes), ranks);
  for (std::size_t i = 0; i < series.size(); ++i) {
    const StepCounts& counts = ranks[0].counts[i];
    steps.push_back({ranks[0].events->pid, counts.step->end_ns, counts.duration_s(),
                     counts.micro_batches, counts.synchronized, counts.step->is_skipped,
                     counts.collectives, series[i]});
  }
  return steps;
}

}  // namespace gradsync::watch
