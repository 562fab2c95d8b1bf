#include "harness/watch/judge/steps/counts.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "harness/base/clock.h"
#include "harness/watch/judge/steps/quiet.h"
#include "harness/watch/judge/steps/waits.h"

namespace gradsync::watch {

namespace {

// Returns the gradients that a synchronizing micro-batch exchanges.
OpSums gradients_of(const MicroBatch& micro_batch, const Quiet& quiet) {
  return without(sums_of(reductions_of(micro_batch)), quiet.of(micro_batch));
}

// Returns the same for one kind of group alone; empty where it synchronizes nothing there.
OpSums gradients_of(const MicroBatch& micro_batch, Among among, const Quiet& quiet) {
  if (!synchronizes(micro_batch, quiet)) return {};
  const OpSums sums = sums_of(reductions_of(micro_batch, among));
  return among == Among::Replicas ? sums : without(sums, quiet.of(micro_batch));
}

bool may_wait_for_each(const MicroBatch& micro_batch) {
  return is_of_fsdp(micro_batch) || micro_batch.is_by_bytes;
}

// The forward after a synchronized one broadcasts buffers anew.
void add_broadcasts_behind(StepCounts& counts, std::size_t index) {
  const std::vector<MicroBatch>& all = counts.step->micro_batches;
  const Models models = models_of(all[index]);
  for (std::size_t i = index + 1; i < all.size(); ++i) {
    if (!share_a_model(models, models_of(all[i]))) continue;
    const EventPointers broadcasts = broadcasts_of(all[i]);
    add(counts.excess, sums_of(broadcasts));
    counts.excess_collectives.insert(counts.excess_collectives.end(), broadcasts.begin(),
                                     broadcasts.end());
    if (counts.excess_ns) *counts.excess_ns += waited_one_by_one_ns(broadcasts);
    return;
  }
}

// What synchronizes behind a micro-batch, among shards or among replicas.
class Later {
 public:
  explicit Later(Among among) : among_(among) {}

  // Returns whether the gradients that this one exchanges are exchanged again. Each unit of a model
  // can synchronize its replicas in another micro-batch: a unit whose size does not come again is
  // not covered.
  bool covers(const MicroBatch& micro_batch) const {
    const Models models = synced_models_of(micro_batch);
    const bool of_models =
        std::includes(models_.begin(), models_.end(), models.begin(), models.end());
    if (among_ == Among::Shards || !of_models) return of_models;
    const Sizes sizes = sizes_of(micro_batch);
    return std::ranges::any_of(sizes_, [&](const Sizes& later) {
      return std::includes(later.begin(), later.end(), sizes.begin(), sizes.end());
    });
  }

  void add(const MicroBatch& micro_batch) {
    models_.merge(synced_models_of(micro_batch));
    if (among_ == Among::Replicas) sizes_.push_back(sizes_of(micro_batch));
  }

 private:
  using Sizes = std::multiset<std::pair<std::int64_t, std::int64_t>>;  // group and bytes

  Sizes sizes_of(const MicroBatch& micro_batch) const {
    Sizes sizes;
    for (const Event* each : reductions_of(micro_batch, among_)) {
      sizes.emplace(each->object, each->bytes);
    }
    return sizes;
  }

  Among among_;
  Models models_;
  std::vector<Sizes> sizes_;  // by micro-batch
};

// What a micro-batch exchanges although it does so again later; empty where it does not.
struct Excess {
  OpSums sums;
  EventPointers collectives;
};

Excess excess_of(const MicroBatch& micro_batch, Later& later, Among among, const Quiet& quiet) {
  OpSums gradients = gradients_of(micro_batch, among, quiet);
  if (gradients.empty()) return {};
  const bool is_excess = later.covers(micro_batch);
  later.add(micro_batch);
  if (!is_excess) return {};
  return {std::move(gradients), reductions_of(micro_batch, among)};
}

void add(std::optional<std::int64_t>& sum_ns, const std::optional<std::int64_t>& more_ns) {
  if (!more_ns) sum_ns.reset();
  if (sum_ns) *sum_ns += *more_ns;
}

// What `micro_batch` would have waited less without `excess`.
std::optional<std::int64_t> waited_less_ns(const MicroBatch& micro_batch,
                                           const EventPointers& excess) {
  const EventPointers all = reductions_of(micro_batch);
  EventPointers rest = all;
  std::erase_if(rest, [&](const Event* each) { return std::ranges::count(excess, each) > 0; });
  const bool may_wait = may_wait_for_each(micro_batch);
  const auto waited = waited_ns(all, may_wait);
  if (!waited || rest.empty()) return waited;
  return *waited - std::min(*waited, waited_ns(rest, may_wait).value_or(0));
}

// From the last micro-batch back: what synchronizes although each of its models does so later.
void find_excess(StepCounts& counts, const Quiet& quiet) {
  Later shards(Among::Shards);
  Later replicas(Among::Replicas);
  const std::vector<MicroBatch>& all = counts.step->micro_batches;
  for (std::size_t i = all.size(); i-- > 0;) {
    if (!has_known_reductions(all[i])) continue;
    const Excess of_shards = excess_of(all[i], shards, Among::Shards, quiet);
    const Excess of_replicas = excess_of(all[i], replicas, Among::Replicas, quiet);
    EventPointers both = of_shards.collectives;
    both.insert(both.end(), of_replicas.collectives.begin(), of_replicas.collectives.end());
    if (both.empty()) continue;
    add(counts.excess, of_shards.sums);
    add(counts.excess, of_replicas.sums);
    counts.excess_micro_batches.insert(counts.excess_micro_batches.begin(), &all[i]);
    counts.excess_collectives.insert(counts.excess_collectives.end(), both.begin(), both.end());
    counts.has_excess_among_shards |= !of_shards.collectives.empty();
    add(counts.excess_ns, waited_less_ns(all[i], both));
    if (!of_replicas.collectives.empty()) {
      counts.replicas.excess.insert(counts.replicas.excess.begin(), &all[i]);
      add(counts.replicas_excess_ns, waited_less_ns(all[i], of_replicas.collectives));
    }
    add_broadcasts_behind(counts, i);
  }
}

// Needs the numbers of micro-batches.
void find_exposed(StepCounts& counts, const Quiet& quiet) {
  std::int64_t exposed_ns = 0;
  for (const MicroBatch& micro_batch : counts.step->micro_batches) {
    exposed_ns += waited_one_by_one_ns(broadcasts_of(micro_batch));
    if (!has_known_reductions(micro_batch) || !synchronizes(micro_batch, quiet)) continue;
    const EventPointers reductions = reductions_of(micro_batch);
    const auto waited = waited_ns(reductions, may_wait_for_each(micro_batch));
    if (!waited) return;
    exposed_ns += *waited;
    for (const Event* reduction : reductions) {
      counts.last_begun_ns = std::max(counts.last_begun_ns, begun_ns(*reduction));
    }
  }
  if (counts.synchronized > 0 || counts.collectives.empty()) counts.exposed_ns = exposed_ns;
}

// Needs the excess.
std::optional<std::int64_t> one_synchronization_ns(const StepCounts& counts, const Quiet& quiet) {
  if (!counts.excess_micro_batches.empty()) {
    if (!counts.excess_ns) return std::nullopt;
    return *counts.excess_ns / std::ssize(counts.excess_micro_batches);
  }
  std::optional<std::int64_t> waited;
  std::int64_t broadcasts_ns = 0;
  int synchronized = 0;
  for (const MicroBatch& micro_batch : counts.step->micro_batches) {
    broadcasts_ns += waited_one_by_one_ns(broadcasts_of(micro_batch));
    if (!has_known_reductions(micro_batch) || !synchronizes(micro_batch, quiet)) continue;
    waited = waited_ns(reductions_of(micro_batch), may_wait_for_each(micro_batch));
    ++synchronized;
  }
  if (synchronized != 1 || !waited) return std::nullopt;
  return *waited + broadcasts_ns;
}

// Shares out the broadcasts of buffers, which each synchronization causes in the next forward.
// Returns whether all have the same share.
bool add_shares(OpSums& synchronization, const OpSums& broadcasts, int synchronized) {
  for (const auto& [op, sum] : broadcasts) {
    if (sum.count % synchronized != 0 || sum.bytes.value_or(0) % synchronized != 0) return false;
    OpSum share{sum.count / synchronized, sum.bytes};
    if (share.bytes) *share.bytes /= synchronized;
    add(synchronization, op, share);
  }
  return true;
}

// Nothing where no micro-batch synchronizes, or they are not alike.
std::optional<StepParts> divided(const StepCounts& counts, const Quiet& quiet) {
  const std::vector<MicroBatch>& all = counts.step->micro_batches;
  StepParts parts;
  OpSums broadcasts;
  int synchronized = 0;
  for (const MicroBatch& micro_batch : all) {
    if (!is_wrapped(micro_batch) || models_of(micro_batch) != models_of(all.front())) return {};
    OpSums own = sums_of(micro_batch.in_forward);
    add(own, sums_of(micro_batch.in_backward));
    own = without(own, sums_of(broadcasts_of(micro_batch)));
    add(broadcasts, sums_of(broadcasts_of(micro_batch)));
    if (synchronizes(micro_batch, quiet)) {
      const OpSums gradients = gradients_of(micro_batch, quiet);
      own = without(own, gradients);
      if (synchronized++ == 0) parts.synchronization = gradients;
      if (gradients != parts.synchronization) return {};
    }
    if (&micro_batch == &all.front()) parts.micro_batch = own;
    if (own != parts.micro_batch) return {};
  }
  if (synchronized == 0 || !add_shares(parts.synchronization, broadcasts, synchronized)) return {};
  const int count = static_cast<int>(all.size());
  parts.fixed = without(counts.collectives, collectives_of(parts, count, synchronized));
  return parts;
}

struct ModelCounts {
  int synchronized = 0;
  int micro_batches = 0;
  int behind_the_last = 0;
};

bool begins_in(const Event& interval, const Event& event) {
  return interval.start_ns <= event.start_ns && event.start_ns <= interval.end_ns;
}

// DDP reduces in the first backward behind a forward, and in no other.
const Event* left_behind(const MicroBatch& micro_batch) {
  const bool is_of_one = models_of(micro_batch).size() == 1 && !is_of_fsdp(micro_batch);
  if (!is_of_one || micro_batch.backwards.size() < 2) return nullptr;
  const Event& last = *micro_batch.backwards.back();
  const bool reduces = std::ranges::any_of(
      reductions_of(micro_batch), [&](const Event* each) { return begins_in(last, *each); });
  return reduces ? nullptr : &last;
}

// Returns the optimizer that steps within the backward of the last micro-batch before that reduces.
const Event* steps_too_soon(const Step& step) {
  const MicroBatch& last = step.micro_batches.back();
  const EventPointers reductions = reductions_of(last);
  for (const Event* backward : last.backwards) {
    const auto is_in = [&](const Event* event) { return begins_in(*backward, *event); };
    const auto first = std::ranges::find_if(reductions, is_in);
    const auto optimizer = std::ranges::find_if(step.optimizers, is_in);
    if (first == reductions.end() || optimizer == step.optimizers.end()) continue;
    const bool is_too_soon = (*optimizer)->start_ns < (*first)->start_ns;
    const bool is_of_it = std::ranges::any_of(models_of(last), [&](std::int64_t model) {
      return has_word(**optimizer, "of=" + std::to_string(model));
    });
    if (is_too_soon && is_of_it) return *optimizer;
  }
  return nullptr;
}

// Returns the forwards of the model that ran most often.
int most_forwards(const Step& step) {
  std::map<std::int64_t, int> by_model;
  int most = 0;
  for (const MicroBatch& micro_batch : step.micro_batches) {
    for (const Event* forward : micro_batch.forwards) {
      most = std::max(most, ++by_model[forward->object]);
    }
  }
  return most;
}

bool is_counted_before(const ModelCounts& a, const ModelCounts& b) {
  return std::tuple(a.synchronized, a.micro_batches, -a.behind_the_last) <
         std::tuple(b.synchronized, b.micro_batches, -b.behind_the_last);
}

// Counts for the model that synchronized most often; among several such models, for the one with
// most micro-batches.
void count_micro_batches(StepCounts& counts, const Quiet& quiet) {
  std::map<std::int64_t, ModelCounts> by_model;
  for (const MicroBatch& micro_batch : counts.step->micro_batches) {
    if (!has_known_reductions(micro_batch)) {
      counts.alone_collectives += static_cast<int>(micro_batch.in_backward.size());
      continue;
    }
    counts.is_by_bytes |= micro_batch.is_by_bytes;
    const bool synced = synchronizes(micro_batch, quiet);
    if (synced && counts.left_behind == nullptr) counts.left_behind = left_behind(micro_batch);
    if (synced) counts.reductions += static_cast<int>(reductions_of(micro_batch).size());
    counts.has_shards |= is_sharded(micro_batch);
    if (!broadcasts_of(micro_batch).empty()) ++counts.micro_batches_with_broadcasts;
    const Models synced_models = synced ? synced_models_of(micro_batch) : Models();
    for (const std::int64_t model : models_of(micro_batch)) {
      ModelCounts& of_model = by_model[model];
      const bool is_synced = synced_models.contains(model);
      of_model.synchronized += is_synced ? 1 : 0;
      ++of_model.micro_batches;
      of_model.behind_the_last = is_synced ? 0 : of_model.behind_the_last + 1;
      counts.models_are_known &= model != 0;
    }
  }
  ModelCounts most;
  for (const auto& [model, count] : by_model) most = std::max(most, count, is_counted_before);
  counts.synchronized = most.synchronized;
  // Where stages take turns, each has a forward for every micro-batch.
  counts.micro_batches =
      counts.step->is_interleaved ? most_forwards(*counts.step) : most.micro_batches;
  counts.behind_the_last = most.behind_the_last;
}

}  // namespace

double StepCounts::duration_s() const {
  return on_gpu ? seconds(on_gpu->span.end_ns - on_gpu->span.start_ns)
                : seconds(step->end_ns - step->start_ns);
}

std::int64_t StepCounts::optimizer_begin_ns() const {
  return step->in_closure ? step->in_closure->end_ns : step->optimizers.front()->start_ns;
}

double StepCounts::optimizer_s() const {
  return on_gpu ? seconds(on_gpu->span.end_ns - on_gpu->optimizer_begin_ns)
                : seconds(step->end_ns - optimizer_begin_ns());
}

std::vector<StepCounts> count_steps(const Steps& steps) {
  const Quiet quiet(steps);
  std::vector<StepCounts> all;
  for (const Step& step : steps.steps) {
    if (!step.is_complete) continue;
    StepCounts counts;
    counts.step = &step;
    counts.collectives = collectives_of(step);
    count_micro_batches(counts, quiet);
    counts.steps_too_soon = steps_too_soon(step);
    counts.replicas = count_replicas(step);
    find_excess(counts, quiet);
    find_exposed(counts, quiet);
    counts.synchronization_ns = one_synchronization_ns(counts, quiet);
    counts.parts = divided(counts, quiet);
    counts.by_group = by_group(step, counts.excess_collectives);
    if (sums_of(counts.excess_collectives) != counts.excess) counts.by_group.clear();
    all.push_back(std::move(counts));
  }
  return all;
}

}  // namespace gradsync::watch
