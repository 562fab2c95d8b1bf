#include "harness/memory/ddp_memory.h"

#include <numeric>

namespace gradsync::memory {
namespace {

using measure::MemoryCategory;

class DdpStep {
 public:
  // `optimizer`: where its state is.
  DdpStep(const DdpMemory& memory, const models::Footprint& footprint, MemoryAccount& account,
          MemoryAccount& optimizer)
      : view_(memory.gradient_as_bucket_view),
        has_masters_(memory.master_weights),
        footprint_(footprint),
        account_(account) {
    for (const std::int64_t bytes : trained()) {
      account_.hold(MemoryCategory::ShardedParameter, bytes);
    }
    footprint.each_frozen([&](std::int64_t elements) {
      account_.hold(MemoryCategory::ShardedParameter, elements * footprint.element_bytes);
    });
    for (const std::int64_t bytes : bucket_bytes(gradients(), memory.buckets)) {
      account_.hold(MemoryCategory::Communication, bytes);
    }
    if (footprint.steps_parameters) hold_optimizer_state(optimizer);
  }

  void optimizer(int last_micro_batch, Offload offload, MemoryAccount& host) {
    account_.enter(last_micro_batch, "optimizer");
    if (has_masters_) hold_masters(account_);  // gradients
    if (!footprint_.steps_parameters) return;
    play_step(offload, footprint_.elements() * footprint_.element_bytes, account_, host);
  }

  // `after_a_sync`: the micro-batch before this one, in this step or the last, was synchronized.
  void micro_batch(int index, bool sync, bool after_a_sync) {
    account_.enter(index, "forward");
    if (after_a_sync) broadcast_buffers();
    play(footprint_.before.forward, account_);
    for (const models::UnitFootprint& unit : footprint_.units) {
      account_.enter_unit(unit.name);
      play(unit.pass->forward, account_);
    }
    account_.leave_units();
    play(footprint_.after.forward, account_);
    account_.enter(index, "backward");
    backward(sync);
  }

 private:
  // What each trained parameter takes.
  std::vector<std::int64_t> trained() const {
    std::vector<std::int64_t> bytes;
    footprint_.each_trained(
        [&](std::int64_t elements) { bytes.push_back(elements * footprint_.element_bytes); });
    return bytes;
  }

  // The same in the order in which their gradients become ready.
  std::vector<std::int64_t> gradients() const {
    std::vector<std::int64_t> ready;
    const auto add = [&](const models::MemoryScript& script) {
      for (const models::MemoryEvent& event : script.events()) {
        if (event.kind == models::MemoryEvent::Kind::Gradient) ready.push_back(event.bytes);
      }
    };
    add(footprint_.after.backward);
    for (std::size_t i = footprint_.units.size(); i-- > 0;) add(footprint_.units[i].pass->backward);
    add(footprint_.before.backward);
    return ready;
  }

  void hold_optimizer_state(MemoryAccount& account) const {
    footprint_.each_trained([&](std::int64_t elements) {
      const std::int64_t moment =
          elements * (has_masters_ ? models::kFloatBytes : footprint_.element_bytes);
      for (const std::int64_t bytes : {moment, moment, models::kFloatBytes}) {  // a counter
        account.hold(MemoryCategory::OptimizerState, bytes);
      }
    });
    if (has_masters_) hold_masters(account);
  }

  void hold_masters(MemoryAccount& account) const {
    footprint_.each_trained([&](std::int64_t elements) {
      account.hold(MemoryCategory::OptimizerState, elements * models::kFloatBytes);
    });
  }

  // Where a parameter's gradient is between micro-batches; all parameters' are at the same place.
  enum class Gradient { None, Own, InBucket };

  // Packed into one message; a footprint's buffers have one dtype.
  void broadcast_buffers() {
    const std::vector<std::int64_t>& buffers = footprint_.buffer_bytes;
    const std::int64_t packed = std::accumulate(buffers.begin(), buffers.end(), std::int64_t{0});
    account_.hold(MemoryCategory::Communication, packed);
    account_.free(MemoryCategory::Communication, packed);
  }

  void backward(bool sync) {
    const LossScope loss(footprint_.element_bytes, account_);
    const auto take = [&](std::int64_t bytes) { take_gradient(bytes, sync); };
    play(footprint_.after.backward, account_, take);
    for (std::size_t i = footprint_.units.size(); i-- > 0;) {
      account_.enter_unit(footprint_.units[i].name);
      play_again(footprint_.units[i], account_);
      play(footprint_.units[i].pass->backward, account_, take);
    }
    account_.leave_units();
    play(footprint_.before.backward, account_, take);
    gradients_ = after(sync);
  }

  Gradient after(bool sync) const {
    if (sync && view_) return Gradient::InBucket;
    return gradients_ == Gradient::InBucket ? Gradient::InBucket : Gradient::Own;
  }

  // Autograd keeps a first gradient and adds a later one to it; the Reducer scales it into its
  // bucket, and may leave it there alone.
  void take_gradient(std::int64_t bytes, bool sync) {
    if (sync) account_.with_number(MemoryCategory::Activation, footprint_.element_bytes);
    const Gradient later = after(sync);
    if (gradients_ == Gradient::Own && later == Gradient::InBucket) {
      account_.free(MemoryCategory::UnshardedGradient, bytes);
    }
    if (gradients_ == Gradient::None && later == Gradient::Own) {
      account_.relabel(MemoryCategory::Activation, MemoryCategory::UnshardedGradient, bytes);
    } else {
      account_.free(MemoryCategory::Activation, bytes);
    }
  }

  bool view_;
  bool has_masters_;
  const models::Footprint& footprint_;
  MemoryAccount& account_;
  Gradient gradients_ = Gradient::None;
};

}  // namespace

StepMemory ddp_step_memory(const DdpMemory& memory, const models::Footprint& footprint,
                           const std::vector<bool>& syncs,
                           const std::vector<std::int64_t>& other_bytes) {
  MemoryAccount account(memory.device);
  MemoryAccount host;
  for (const std::int64_t bytes : other_bytes) account.hold(MemoryCategory::Other, bytes);
  const bool is_offloaded = memory.offload == Offload::OptimizerState;
  const std::int64_t trained = footprint.elements() * footprint.element_bytes;
  if (is_offloaded) host.hold(MemoryCategory::ShardedParameter, trained);  // what it steps
  DdpStep step(memory, footprint, account, is_offloaded ? host : account);
  account.hold_workspaces(memory.device, footprint);
  for (std::size_t i = 0; i < syncs.size(); ++i) {
    step.micro_batch(static_cast<int>(i), syncs[i], i == 0 ? syncs.back() : syncs[i - 1]);
  }
  step.optimizer(static_cast<int>(syncs.size()) - 1, memory.offload, host);
  return account.memory_with(host);
}

}  // namespace gradsync::memory
