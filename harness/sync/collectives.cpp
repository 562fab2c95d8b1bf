#include "harness/sync/collectives.h"

#include <algorithm>

#include "models/footprint.h"

namespace gradsync::sync {

Collectives batch_norm_collectives(const std::vector<std::int64_t>& channels, int ranks) {
  if (channels.empty() || ranks == 1) return {};
  Collectives done;
  for (const std::int64_t count : channels) {
    done[kBatchNormGather].push_back(ranks * (2 * count + 1) * models::kFloatBytes);
    done[kBatchNormReduce].push_back(2 * count * models::kFloatBytes);
  }
  std::ranges::reverse(done[kBatchNormReduce]);  // backward begins with the last layer
  return done;
}

std::vector<Collectives> declared_collectives(const DdpTraffic& traffic,
                                              const std::vector<bool>& syncs) {
  std::vector<Collectives> step(syncs.size(), traffic.batch_norm);
  for (std::size_t i = 0; i < syncs.size(); ++i) {
    const bool after_a_sync = i == 0 ? syncs.back() : syncs[i - 1];
    if (after_a_sync && !traffic.buffer_bytes.empty()) step[i]["broadcast"] = traffic.buffer_bytes;
    if (!syncs[i]) continue;
    std::vector<std::int64_t>& reduced = step[i]["all_reduce"];
    reduced = traffic.bucket_bytes;
    if (traffic.unused_map_bytes > 0) reduced.push_back(traffic.unused_map_bytes);
  }
  return step;
}

namespace {

// Which units are gathered, as a step goes on.
class FsdpStep {
 public:
  explicit FsdpStep(const FsdpTraffic& traffic)
      : traffic_(traffic), gathered_(traffic.units.size(), false) {}

  Collectives micro_batch(bool sync) {
    Collectives done;
    if (!root_gathered_) gather(traffic_.root, done);
    for (std::size_t i = 0; i < gathered_.size(); ++i) {
      if (!gathered_[i]) gather(traffic_.units[i], done);
      gathered_[i] = !traffic_.reshard_after_forward;
    }
    const bool keep = !sync && !traffic_.reshard_after_backward;
    for (std::size_t i = gathered_.size(); i-- > 0;) {
      const bool gathers = traffic_.units[i].runs_backward || is_gathered_ahead(i);
      if (gathers && !gathered_[i]) gather(traffic_.units[i], done);
      if (sync) reduce(traffic_.units[i], done);
      gathered_[i] = keep && (traffic_.units[i].runs_backward || gathered_[i]);
    }
    if (sync) reduce(traffic_.root, done);
    root_gathered_ = keep;
    return done;
  }

 private:
  // By the unit after it, or by the root, which holds the loss.
  bool is_gathered_ahead(std::size_t unit) const {
    const bool is_last = unit + 1 == gathered_.size();
    return traffic_.prefetch &&
           (is_last ? traffic_.root.gather_bytes > 0 : traffic_.units[unit + 1].runs_backward);
  }
  static void gather(const UnitTraffic& unit, Collectives& done) {
    if (unit.gather_bytes > 0) done["all_gather"].push_back(unit.gather_bytes);
  }
  static void reduce(const UnitTraffic& unit, Collectives& done) {
    if (unit.reduce_bytes > 0) done["reduce_scatter"].push_back(unit.reduce_bytes);
    if (unit.replicate_bytes > 0) done["all_reduce"].push_back(unit.replicate_bytes);
  }

  const FsdpTraffic& traffic_;
  std::vector<bool> gathered_;
  bool root_gathered_ = false;
};

}  // namespace

std::vector<Collectives> declared_collectives(const FsdpTraffic& traffic,
                                              const std::vector<bool>& syncs) {
  std::vector<Collectives> step;
  FsdpStep state(traffic);
  for (const bool sync : syncs) step.push_back(state.micro_batch(sync));
  return step;
}

std::vector<Collectives> declared_collectives(const StageTraffic& traffic,
                                              std::size_t micro_batches) {
  Collectives one;
  const bool has_previous = traffic.from_previous_bytes > 0;
  if (has_previous) one["recv"].push_back(traffic.from_previous_bytes);
  if (traffic.to_next_bytes > 0) {
    one["send"].push_back(traffic.to_next_bytes);
    one["recv"].push_back(traffic.to_next_bytes);
  }
  if (has_previous) one["send"].push_back(traffic.from_previous_bytes);
  return std::vector<Collectives>(micro_batches, one);
}

}  // namespace gradsync::sync
