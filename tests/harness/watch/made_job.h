// A training job written down event by event, for tests of what is made of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "harness/watch/read/event.h"

namespace gradsync::test {

inline constexpr std::int64_t kMillisecond = 1'000'000;
inline constexpr int kBuckets = 2;
inline constexpr std::int64_t kBucketBytes = 1000;
inline constexpr std::int64_t kWaitMs = 30;  // from the last bucket's issue to its completion

// Every call adds what the job does next. Forwards take 10 ms, a backward 20 ms and the wait for
// its collectives, an optimizer 5 ms; 1 ms lies between any two.
class MadeJob {
 public:
  using Event = watch::Event;
  using EventKind = watch::EventKind;
  using RankEvents = watch::RankEvents;

  explicit MadeJob(int rank = 0, int world_size = 2) {
    process_.rank = rank;
    process_.world_size = world_size;
    process_.pid = 100 + rank;
  }

  std::string wrapper = "DistributedDataParallel";
  std::string reduction = "all_reduce";
  bool ends_are_known = true;  // of collectives

  MadeJob& wrap(std::int64_t model = 1, const std::string& options = "", std::int64_t bytes = -1) {
    Event& event = add(EventKind::Wrap, 1);
    name(event, wrapper, model, 5);
    event.detail = options;
    event.bytes = bytes;
    return collective("broadcast", kBuckets * kBucketBytes);
  }

  MadeJob& forward(std::int64_t model = 1, const std::string& detail = "") {
    Event& event = add(EventKind::Forward, 10);
    name(event, wrapper, model, 21);
    event.detail = detail;
    return *this;
  }

  // The forward that broadcasts buffers.
  MadeJob& forward_with_buffers(std::int64_t model = 1, const std::string& detail = "") {
    const std::int64_t start_ns = now_ns_;
    forward(model, detail);
    add_at(start_ns + kMillisecond, 2, "broadcast", 64);
    return *this;
  }

  // The backward that reduces nothing.
  MadeJob& backward() {
    add(EventKind::Backward, 20);
    return *this;
  }

  // The backward of the job's own line that reaches gradients of so many bytes, and adds to some
  // that were there.
  MadeJob& backward_of(std::int64_t bytes, std::int64_t added_bytes = 0, int line = 61) {
    Event& event = add(EventKind::Backward, 20);
    name(event, "", 0, line);
    event.bytes = bytes;
    event.added_bytes = added_bytes;
    return *this;
  }

  // The backward with `count` collectives of gradients, of which the last is issued after 20 ms.
  MadeJob& reducing(int count = kBuckets, std::int64_t bytes = kBucketBytes) {
    const std::int64_t start_ns = now_ns_;
    add(EventKind::Backward, 20 + kWaitMs);
    for (int i = 0; i < count; ++i) {
      add_at(start_ns + (20 - (count - 1 - i)) * kMillisecond, kWaitMs, reduction, bytes);
    }
    return *this;
  }

  // A reduction, in milliseconds.
  struct Paced {
    std::int64_t begin = 0;  // from the backward's start
    std::int64_t wire = 0;   // of this one alone
    std::int64_t bytes = 0;
  };

  // The backward of `gradients` that computes for so long, and ends with the last of its
  // reductions, of which the wire takes one at a time.
  MadeJob& reducing_paced(int gradients, std::int64_t computes,
                          const std::vector<Paced>& reductions) {
    const std::int64_t start_ns = now_ns_;
    std::int64_t free_ns = 0;
    for (const Paced& each : reductions) {
      const std::int64_t begin_ns = start_ns + each.begin * kMillisecond;
      free_ns = std::max(begin_ns, free_ns) + each.wire * kMillisecond;
      add_at(begin_ns, (free_ns - begin_ns) / kMillisecond, reduction, each.bytes);
    }
    const std::int64_t waits_ns =
        std::max(std::int64_t{0}, free_ns - start_ns - computes * kMillisecond);
    add(EventKind::Backward, computes + waits_ns / kMillisecond).detail = std::to_string(gradients);
    return *this;
  }

  // The same backward, with its gradients reduced by hand behind it, one after the other.
  MadeJob& reduced_by_hand(int gradients, std::int64_t computes,
                           const std::vector<Paced>& reductions) {
    Event& backward = add(EventKind::Backward, computes);
    name(backward, "", 0, 61);
    backward.detail = std::to_string(gradients);
    for (const Paced& each : reductions) {
      add_at(now_ns_, each.wire, reduction, each.bytes);
      now_ns_ += each.wire * kMillisecond;
    }
    return *this;
  }

  // Adds a backward of hybrid sharding that adds shards up, unit by unit, and replicas too where
  // `with_replicas`.
  MadeJob& hybrid(bool with_replicas, std::int64_t bytes = kBucketBytes) {
    const std::int64_t start_ns = now_ns_;
    add(EventKind::Backward, 20 + kWaitMs);
    for (int i = 0; i < kBuckets; ++i) {
      const std::int64_t at_ns = start_ns + (19 - 2 * (kBuckets - 1 - i)) * kMillisecond;
      in_group(kShards, add_at(at_ns, kWaitMs / 2, "reduce_scatter", bytes)).has_replicas = true;
      if (!with_replicas) continue;
      in_group(kReplicas, add_at(at_ns + kMillisecond, kWaitMs, "all_reduce", bytes / 2));
    }
    return *this;
  }

  // The groups in which it does so, as the wrapper tells, of `replicas` ranks.
  MadeJob& hybrid_groups(int replicas = 2) {
    using watch::GroupRole;
    process_.groups = {{"3", kShards, {0, 1}, "dp_shard", GroupRole::Shard, true, "1"},
                       {"1", kReplicas, {0}, "dp_replicate", GroupRole::Replicate, true, ""}};
    for (int i = 1; i < replicas; ++i) process_.groups[1].ranks.push_back(2 * i);
    return *this;
  }

  // What a rank holds of the gradients of model 1.
  MadeJob& holding(watch::HeldGradients held) {
    process_.held[1] = held;
    return *this;
  }

  // A collective beside forward and backward.
  MadeJob& collective(const std::string& op, std::int64_t bytes) {
    add_at(now_ns_, 2, op, bytes);
    now_ns_ += 3 * kMillisecond;
    return *this;
  }

  // The job calls that function of torch.distributed, which moves so much, and goes on after
  // `takes` milliseconds.
  MadeJob& call(const std::string& function, std::int64_t takes, const std::string& op,
                std::int64_t bytes, int line = 71, const std::string& detail = "") {
    const std::int64_t start_ns = now_ns_;
    Event& event = add(EventKind::Call, takes);
    name(event, function, 0, line);
    event.detail = detail;
    if (!op.empty()) add_at(start_ns, takes, op, bytes);
    return *this;
  }

  MadeJob& optimizer(const std::string& detail = "") {
    Event& event = add(EventKind::OptimizerStep, 5);
    name(event, "SGD", 0, 81);
    event.detail = detail;
    return *this;
  }

  // The optimizer until whose end tensors held at most that much, and never more since.
  MadeJob& optimizer_holding(std::int64_t bytes) {
    add(EventKind::OptimizerStep, 5).bytes = bytes;
    process_.peak.bytes = bytes;
    return *this;
  }

  MadeJob& zero_grad(int line = 31) {
    name(add(EventKind::ZeroGrad, 1), "", 0, line);
    return *this;
  }

  MadeJob& use_gradients(const std::string& how, int line = 32) {
    Event& event = add(EventKind::GradientUse, 0);
    name(event, "", 0, line);
    event.detail = how;
    return *this;
  }

  MadeJob& comm_hook(int line = 51) {
    name(add(EventKind::CommHook, 0), "", 1, line);
    return *this;
  }

  MadeJob& enter_no_sync(std::int64_t model = 1, int line = 11) {
    name(add(EventKind::NoSyncEnter, 0), "", model, line);
    return *this;
  }

  MadeJob& leave_no_sync(std::int64_t model = 1) {
    name(add(EventKind::NoSyncLeave, 0), "", model, 11);
    return *this;
  }

  MadeJob& flag(bool value, int line = 41, const std::string& method = "") {
    Event& event = add(EventKind::Sync, 0);
    name(event, method, 1, line);
    event.detail = value ? "true" : "false";
    return *this;
  }

  // What is added between the two happens inside of this event.
  MadeJob& begin(EventKind kind) {
    open_.push_back(process_.events.size());
    add(kind, 0);
    return *this;
  }
  MadeJob& begin_forward(std::int64_t model = 1, const std::string& detail = "") {
    begin(EventKind::Forward);
    name(process_.events.back(), wrapper, model, 21);
    process_.events.back().detail = detail;
    return *this;
  }
  MadeJob& end() {
    process_.events[open_.back()].end_ns = now_ns_;
    open_.pop_back();
    now_ns_ += kMillisecond;
    return *this;
  }

  // A forward of a model within the one that is open.
  MadeJob& inner_forward(std::int64_t model, const std::string& detail = "") {
    forward(model, detail);
    process_.events.back().kind = EventKind::InnerForward;
    return *this;
  }

  MadeJob& fault(const std::string& sentence) {
    process_.faults.push_back(sentence);
    return *this;
  }

  // `count` times what `part` adds.
  template <typename Part>
  MadeJob& times(int count, Part part) {
    for (int i = 0; i < count; ++i) part(*this);
    return *this;
  }

  // It computes for so many milliseconds.
  MadeJob& computes(std::int64_t milliseconds) {
    now_ns_ += milliseconds * kMillisecond;
    return *this;
  }

  std::vector<Event>& events() { return process_.events; }

  // The process, its events by time.
  RankEvents process() const {
    RankEvents sorted = process_;
    watch::sort_by_time(sorted.events);
    return sorted;
  }

 private:
  static void name(Event& event, const std::string& name, std::int64_t object, int line) {
    event.name = name;
    event.object = object;
    event.file = "/home/someone/train.py";
    event.line = line;
  }

  Event& add(EventKind kind, std::int64_t milliseconds) {
    Event event;
    event.kind = kind;
    event.start_ns = now_ns_;
    event.end_ns = now_ns_ + milliseconds * kMillisecond;
    now_ns_ = event.end_ns + kMillisecond;
    process_.events.push_back(std::move(event));
    return process_.events.back();
  }

  static constexpr std::int64_t kShards = 33;
  static constexpr std::int64_t kReplicas = 11;

  static Event& in_group(std::int64_t group, Event& event) {
    event.object = group;
    event.role = group == kShards ? watch::GroupRole::Shard : watch::GroupRole::Replicate;
    return event;
  }

  Event& add_at(std::int64_t start_ns, std::int64_t milliseconds, const std::string& op,
                std::int64_t bytes) {
    Event event;
    event.kind = EventKind::Collective;
    event.start_ns = start_ns;
    event.end_ns = ends_are_known ? start_ns + milliseconds * kMillisecond : start_ns;
    event.name = op;
    event.bytes = bytes;
    process_.events.push_back(std::move(event));
    return process_.events.back();
  }

  RankEvents process_;
  std::int64_t now_ns_ = 1000 * kMillisecond;
  std::vector<std::size_t> open_;  // the outermost first
};

}  // namespace gradsync::test
