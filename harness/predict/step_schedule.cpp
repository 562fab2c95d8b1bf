#include "harness/predict/step_schedule.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "harness/stats/student.h"
#include "models/footprint.h"

namespace gradsync::predict {
namespace {

// By how much the slowest rank's micro-batch is longer than the mean, where ranks wait for each
// other after `window` of them.
double slowest_factor(const StepOptions& options, int ranks, std::size_t window) {
  if (options.rank_spread == 0) return 1;
  return 1 + options.rank_spread * stats::expected_largest_normal(ranks) /
                 std::sqrt(static_cast<double>(window));
}

// How many micro-batches lie between the synchronizations around each.
std::vector<std::size_t> windows_of(const std::vector<bool>& syncs) {
  std::vector<std::size_t> windows(syncs.size());
  for (std::size_t begin = 0; begin < syncs.size();) {
    std::size_t end = begin;
    while (end + 1 < syncs.size() && !syncs[end]) ++end;
    for (std::size_t i = begin; i <= end; ++i) windows[i] = end + 1 - begin;
    begin = end + 1;
  }
  return windows;
}

double bytes_of(std::int64_t elements, std::int64_t bytes_per_element) {
  return static_cast<double>(elements * bytes_per_element);
}

std::int64_t elements_of(const Layer& layer) {
  return std::accumulate(layer.elements.begin(), layer.elements.end(), std::int64_t{0});
}

// What both kinds of steps have in common.
class Step {
 public:
  Step(const StepModel& model, const Network& network, const StepOptions& options)
      : model_(model), network_(network), options_(options) {}

  // The next computation waits for it.
  void wait_for(int span) {
    if (span != Span::kNoSpan) awaited_.push_back(span);
  }
  int compute(const std::string& name, int micro_batch, double length_s) {
    const int span = schedule_.compute(name, micro_batch, length_s, awaited_);
    awaited_.clear();
    return span;
  }
  int send(const std::string& name, int micro_batch, Group group, Operation operation,
           double bytes) {
    std::vector<int> needs = awaited_;
    needs.push_back(schedule_.last_on(Lane::Compute));
    return schedule_.send(name, micro_batch, collective_time(network_, group, operation, bytes),
                          needs);
  }
  Schedule ended(double optimizer_s) {
    compute("optimizer", 0, optimizer_s);
    return std::move(schedule_);
  }

 protected:
  const StepModel& model_;
  const Network& network_;
  const StepOptions& options_;
  Schedule schedule_;

 private:
  std::vector<int> awaited_;
};

// Gradients are replicated: ddp, and what its place is taken by on the road to it.
class ReplicatedStep : public Step {
 public:
  ReplicatedStep(const StepModel& model, const Network& network, const StepOptions& options)
      : Step(model, network, options), buckets_(buckets()) {}

  Schedule run() {
    const std::vector<std::size_t> windows = windows_of(options_.syncs);
    for (std::size_t i = 0; i < options_.syncs.size(); ++i) {
      const bool after_a_sync = i == 0 ? options_.syncs.back() : options_.syncs[i - 1];
      if (after_a_sync) broadcast_buffers(static_cast<int>(i));
      const double factor = slowest_factor(options_, network_.world_size(), windows[i]);
      micro_batch(static_cast<int>(i), options_.syncs[i], factor);
    }
    return ended(model_.optimizer_s);
  }

 private:
  std::vector<Bucket> buckets() const {
    if (options_.wrapper == "local") return {};
    if (options_.wrapper == "by_hand") return tensors_after_backward(model_);
    if (options_.wrapper == "by_hand_coalesced") return {{model_.elements(), 0}};
    return reducer_buckets(model_, options_.buckets);
  }

  void broadcast_buffers(int micro_batch) {
    if (options_.wrapper != "ddp" || !options_.broadcasts_buffers) return;
    if (model_.buffer_bytes.empty()) return;
    const auto bytes =
        std::accumulate(model_.buffer_bytes.begin(), model_.buffer_bytes.end(), std::int64_t{0});
    wait_for(send("buffers", micro_batch, Group::World, Operation::Broadcast,
                  static_cast<double>(bytes)));
  }

  void micro_batch(int index, bool sync, double factor) {
    compute("forward", index, network_.host.micro_batch_s + model_.forward_s() * factor);
    std::size_t next = 0;
    int last_sent = Span::kNoSpan;
    for (std::size_t layer = model_.layers.size(); layer-- > 0;) {
      const double fill_s = sync ? fill_of(model_.layers[layer]) : 0;
      compute("backward", index, model_.layers[layer].backward_s * factor + fill_s);
      for (; sync && next < buckets_.size() && buckets_[next].layer == layer; ++next) {
        last_sent =
            send(fmt::format("bucket {}", next + 1), index, Group::World, Operation::AllReduce,
                 bytes_of(buckets_[next].elements, options_.gradient_bytes));
      }
    }
    wait_for(last_sent);
    if (sync) copy_back(index);
  }

  // Gradients that are no views of buckets are copied into them, each when it is ready.
  double fill_of(const Layer& layer) const {
    if (options_.wrapper != "ddp" || !options_.copies_back) return 0;
    return network_.host.fill_per_byte_s * bytes_of(elements_of(layer), models::kFloatBytes);
  }

  // The last bucket's copy is made when all others are, which are made while it is waited for; all
  // are counted, since the measured ones take as long as that whether the wire is slow or not.
  void copy_back(int micro_batch) {
    const double copy_s =
        network_.host.copy_per_byte_s * bytes_of(model_.elements(), models::kFloatBytes);
    if (options_.wrapper == "ddp" && options_.copies_back && copy_s > 0) {
      compute("copy", micro_batch, copy_s);
    }
  }

  std::vector<Bucket> buckets_;
};

class ShardedStep : public Step {
 public:
  ShardedStep(const StepModel& model, const Network& network, const StepOptions& options)
      : Step(model, network, options),
        gathered_(model.layers.size(), false),
        gathering_(model.layers.size(), Span::kNoSpan) {}

  Schedule run() {
    for (std::size_t i = 0; i < options_.syncs.size(); ++i) {
      micro_batch(static_cast<int>(i), options_.syncs[i]);
    }
    const int parts = model_.shards_optimizer ? ranks_in(network_, shards()) : 1;
    return ended(model_.optimizer_s / parts);
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  Group shards() const { return options_.is_hybrid ? Group::WithinNode : Group::World; }

  std::int64_t elements(std::size_t unit) const { return elements_of(model_.layers[unit]); }

  // Returns the host's time to allocate, fill and free storage for `elements` that are gathered or
  // reduced.
  double storage_s(std::int64_t elements, std::int64_t bytes_per_element) const {
    return network_.host.shard_per_byte_s * bytes_of(elements, bytes_per_element);
  }
  double gathers_of(std::size_t unit) const {
    return gathered_[unit] ? 0 : storage_s(elements(unit), options_.parameter_bytes);
  }
  double reduces_of(std::int64_t elements) const {
    return storage_s(elements, options_.gradient_bytes);
  }

  void begin_gather(std::size_t unit, int micro_batch) {
    if (gathered_[unit] || gathering_[unit] != Span::kNoSpan || elements(unit) == 0) return;
    gathering_[unit] =
        send("gather " + model_.layers[unit].name, micro_batch, shards(), Operation::AllGather,
             bytes_of(elements(unit), options_.parameter_bytes));
  }

  // Parameters in no unit are gathered as if they were one in front of all, and stay.
  void gather_root(int micro_batch) {
    if (model_.root_elements == 0) return;
    if (!has_root_) {
      compute("gather", micro_batch, storage_s(model_.root_elements, options_.parameter_bytes));
      wait_for(send("gather root", micro_batch, shards(), Operation::AllGather,
                    bytes_of(model_.root_elements, options_.parameter_bytes)));
    }
    has_root_ = true;
    for (std::size_t first = 0; options_.prefetches && first < model_.layers.size(); ++first) {
      if (elements(first) == 0) continue;
      begin_gather(first, micro_batch);
      break;
    }
  }

  // Has `unit`, then begins to gather `next`.
  void gather(std::size_t unit, std::size_t next, int micro_batch) {
    if (elements(unit) == 0) return;
    begin_gather(unit, micro_batch);
    wait_for(gathering_[unit]);
    gathering_[unit] = Span::kNoSpan;
    gathered_[unit] = true;
    if (options_.prefetches && next != kNone) begin_gather(next, micro_batch);
  }

  void reduce(const std::string& unit, std::int64_t elements, int micro_batch) {
    if (elements == 0) return;
    wait_for(reducing_);
    const double bytes = bytes_of(elements, options_.gradient_bytes);
    const std::string name = "reduce " + unit;
    reducing_ = send(name, micro_batch, shards(), Operation::ReduceScatter, bytes);
    if (!options_.is_hybrid) return;
    reducing_ = send(name + " across nodes", micro_batch, Group::AcrossNodes, Operation::AllReduce,
                     bytes / network_.ranks_per_node);
  }

  void reduce_root(int micro_batch) {
    if (model_.root_elements == 0) return;
    compute("reduce", micro_batch, reduces_of(model_.root_elements));
    reduce("root", model_.root_elements, micro_batch);
  }

  void micro_batch(int index, bool sync) {
    const double factor = slowest_factor(options_, network_.world_size(), 1);
    const std::size_t units = model_.layers.size();
    gather_root(index);
    for (std::size_t unit = 0; unit < units; ++unit) {
      const double gathers_s = gathers_of(unit);
      gather(unit, unit + 1 < units ? unit + 1 : kNone, index);
      const double hosts_s = gathers_s + (unit == 0 ? network_.host.micro_batch_s : 0);
      compute("forward", index, hosts_s + model_.layers[unit].forward_s * factor);
      gathered_[unit] = !options_.reshards_after_forward;
    }
    const bool keeps = !sync && !options_.reshards_after_backward;
    for (std::size_t unit = units; unit-- > 0;) {
      const double hosts_s = gathers_of(unit) + (sync ? reduces_of(elements(unit)) : 0);
      gather(unit, unit > 0 ? unit - 1 : kNone, index);
      compute("backward", index, hosts_s + model_.layers[unit].backward_s * factor);
      if (sync) reduce(model_.layers[unit].name, elements(unit), index);
      gathered_[unit] = keeps;
    }
    if (sync) reduce_root(index);
    has_root_ = keeps;
    wait_for(reducing_);
    reducing_ = Span::kNoSpan;
  }

  std::vector<bool> gathered_;  // by unit: its parameters are there
  std::vector<int> gathering_;  // by unit: the span that brings them
  int reducing_ = Span::kNoSpan;
  bool has_root_ = false;
};

}  // namespace

Schedule step_schedule(const StepModel& model, const Network& network, const StepOptions& options) {
  if (options.wrapper == "fsdp") return ShardedStep(model, network, options).run();
  return ReplicatedStep(model, network, options).run();
}

}  // namespace gradsync::predict
