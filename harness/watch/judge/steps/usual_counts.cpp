#include <fmt/format.h>

#include <algorithm>

#include "harness/watch/judge/examined.h"
#include "harness/watch/judge/steps/job_counts.h"
#include "harness/watch/judge/steps/usual_step.h"
#include "harness/watch/judge/steps/usual_work.h"

namespace gradsync::watch {
namespace {

std::string unsteady_words(int rank, const UsualStep& usual,
                           const std::vector<StepCounts>& counts) {
  const auto all = std::ssize(not_skipped(counts));
  const auto alike = std::count_if(usual.all.begin(), usual.all.end(), [&](const StepCounts* step) {
    return step->collectives == usual.example->collectives;
  });
  if (2 * alike >= all - 1) return "";  // 1: the first step arranges buckets
  return fmt::format("{} of {} steps of rank {} have the collectives of its usual one", alike, all,
                     rank);
}

}  // namespace

UsualCounts usual_counts(const std::vector<RankEvents>& processes) {
  UsualCounts found;
  int world_size = 0;
  std::vector<gate::RecordedStep> recorded;
  std::vector<gate::RankWork> work;
  for (const RankEvents* process : training_processes(processes)) {
    const Steps steps = cut_into_steps(process->events);
    const std::vector<StepCounts> counts = count_steps(steps);
    const auto usual = usual_step(counts);
    if (!usual) continue;
    world_size = std::max(world_size, process->world_size);
    const int rank = std::max(process->rank, 0);  // without a process group it is alone
    if (found.unsteady.empty()) found.unsteady = unsteady_words(rank, *usual, counts);
    const Step& step = *usual->example->step;
    recorded.push_back({rank, static_cast<int>(step.micro_batches.size()), usual->synchronized,
                        timeline_of(step), repeatable_peak(step, process->peak.bytes)});
    if (auto own = usual_work(*process, *usual)) {
      own->ranks = {rank};
      work.push_back(std::move(*own));
    }
  }
  found.counts = gate::held_counts(std::max(world_size, 1), recorded);
  if (!work.empty()) found.counts.work = {"", gate::grouped(work)};
  return found;
}

}  // namespace gradsync::watch
