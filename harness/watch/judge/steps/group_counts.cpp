#include "harness/watch/judge/steps/group_counts.h"

#include <algorithm>

namespace gradsync::watch {

ByGroup by_group(const Step& step, const EventPointers& excess) {
  ByGroup groups;
  const auto add_all = [&](const EventPointers& collectives) {
    for (const Event* each : collectives) add(groups[each->object].collectives, *each);
  };
  for (const MicroBatch& micro_batch : step.micro_batches) {
    add_all(micro_batch.in_forward);
    add_all(micro_batch.in_backward);
  }
  add_all(step.in_evaluation);
  add_all(step.outside);
  for (const Event* each : excess) add(groups[each->object].excess, *each);
  return groups;
}

ReplicaCounts count_replicas(const Step& step) {
  ReplicaCounts counts;
  for (const MicroBatch& micro_batch : step.micro_batches) {
    const EventPointers shards = reductions_of(micro_batch, Among::Shards);
    const bool is_synced = !reductions_of(micro_batch, Among::Replicas).empty();
    const bool is_due =
        std::ranges::any_of(shards, [](const Event* each) { return each->has_replicas; });
    if (!is_wrapped(micro_batch) || (!is_synced && !is_due)) continue;
    ++counts.micro_batches;
    counts.synchronized += is_synced ? 1 : 0;
    counts.behind_the_last = is_synced ? 0 : counts.behind_the_last + 1;
  }
  return counts;
}

}  // namespace gradsync::watch
