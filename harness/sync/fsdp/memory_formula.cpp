#include "harness/sync/fsdp/memory_formula.h"

#include "harness/sync/fsdp/flat_layout.h"

namespace gradsync::sync {
namespace {

using measure::MemoryCategory;

// The allocations of one FlatUnit.
class Unit {
 public:
  // `sizes`: of its parameters, in elements.
  Unit(const std::vector<std::int64_t>& sizes, bool has_moments, const FsdpMemory& memory,
       MemoryAccount& account)
      : memory_(memory),
        account_(account),
        whole_(flat_layout(sizes, memory.param_bytes, memory.ranks).padded),
        part_(whole_ / memory.ranks) {
    constexpr int kMoments = 2;
    constexpr std::int64_t kStepCounterBytes = 4;
    if (empty()) return;
    account_.hold(MemoryCategory::ShardedParameter, part_ * memory_.stored_bytes);
    if (!has_moments) return;
    account_.hold(MemoryCategory::OptimizerState,
                  kMoments * part_ * memory_.stored_bytes + kStepCounterBytes);
  }

  bool empty() const { return whole_ == 0; }

  void start_gather() {
    if (gathered_ || gathering_) return;
    gathering_ = true;
    account_.hold(MemoryCategory::GatheredParameter, whole_ * memory_.param_bytes);
    account_.hold(MemoryCategory::Communication, gather_cast());
    if (!memory_.backend_copies_gathers) return;
    account_.hold(MemoryCategory::Communication, whole_ * memory_.param_bytes);
    account_.free(MemoryCategory::Communication, whole_ * memory_.param_bytes);
  }
  void finish_gather() {
    if (!gathering_) return;
    gathering_ = false;
    gathered_ = true;
    account_.free(MemoryCategory::Communication, gather_cast());
  }
  void reshard() {
    finish_gather();
    if (!gathered_) return;
    gathered_ = false;
    account_.free(MemoryCategory::GatheredParameter, whole_ * memory_.param_bytes);
  }
  // The gradients of the next backward add to those kept.
  void begin_backward() {
    taken_ = 0;
    kept_ = has_gradient_;
  }
  std::size_t taken() const { return taken_; }
  // A parameter's gradient, which stays until autograd lets it go.
  void take_gradient(std::int64_t bytes) {
    ++taken_;
    ensure_gradient();
    // What accumulates in fewer bits is widened to be added to, and the sum narrowed again.
    if (kept_ && memory_.gradient_bytes < memory_.param_bytes) {
      account_.hold(MemoryCategory::Activation, 2 * bytes);
      account_.free(MemoryCategory::Activation, 2 * bytes);
    }
  }
  void start_reduce() {
    ensure_gradient();
    if (casts_gradient()) {
      account_.hold(MemoryCategory::Communication, on_the_wire());
      account_.free(MemoryCategory::UnshardedGradient, whole_ * memory_.gradient_bytes);
    }
    account_.hold(MemoryCategory::ShardedGradient, part_ * memory_.reduce_bytes);
    if (memory_.backend_copies_reductions) {
      account_.hold(MemoryCategory::Communication, on_the_wire());
    }
  }
  void finish_reduce() {
    if (memory_.backend_copies_reductions) {
      account_.free(MemoryCategory::Communication, on_the_wire());
    }
    account_.free(
        casts_gradient() ? MemoryCategory::Communication : MemoryCategory::UnshardedGradient,
        on_the_wire());
    has_gradient_ = false;
    // The sum over the ranks becomes their mean.
    account_.with_number(MemoryCategory::Activation, memory_.reduce_bytes);
    add_to_shard_gradient();
  }

 private:
  void ensure_gradient() {
    if (has_gradient_) return;
    has_gradient_ = true;
    account_.hold(MemoryCategory::UnshardedGradient, whole_ * memory_.gradient_bytes);
  }

  // A gradient that comes in another dtype is cast: to stay, or to be added.
  void add_to_shard_gradient() {
    const bool same_dtype = memory_.reduce_bytes == memory_.stored_bytes;
    if (!has_shard_gradient_ && same_dtype) {
      has_shard_gradient_ = true;
      return;
    }
    const std::int64_t cast = same_dtype ? 0 : part_ * memory_.stored_bytes;
    account_.hold(MemoryCategory::ShardedGradient, cast);
    if (has_shard_gradient_) account_.free(MemoryCategory::ShardedGradient, cast);
    has_shard_gradient_ = true;
    account_.free(MemoryCategory::ShardedGradient, part_ * memory_.reduce_bytes);
  }

  bool casts_gradient() const { return memory_.gradient_bytes != memory_.reduce_bytes; }
  std::int64_t gather_cast() const {
    return memory_.param_bytes == memory_.stored_bytes ? 0 : part_ * memory_.param_bytes;
  }
  std::int64_t on_the_wire() const { return whole_ * memory_.reduce_bytes; }

  const FsdpMemory& memory_;
  MemoryAccount& account_;
  std::int64_t whole_;
  std::int64_t part_;
  bool gathering_ = false;
  bool gathered_ = false;
  bool has_gradient_ = false;
  bool has_shard_gradient_ = false;
  bool kept_ = false;  // there was a gradient when this backward began
  std::size_t taken_ = 0;
};

// The visits of FullyShardedDataParallel.
class Step {
 public:
  Step(const FsdpMemory& memory, const models::Footprint& footprint, MemoryAccount& account)
      : memory_(memory),
        footprint_(footprint),
        account_(account),
        root_(footprint.other_parameters, footprint.steps_parameters, memory, account) {
    for (const models::UnitFootprint& unit : footprint.units) {
      units_.emplace_back(unit.parameters, footprint.steps_parameters, memory, account);
    }
  }

  void micro_batch(int index, bool sync) {
    account_.enter(index, "forward");
    forward();
    account_.enter(index, "backward");
    backward(sync);
  }

 private:
  void forward() {
    gather(root_, 0);
    play(footprint_.before.forward, account_);
    for (std::size_t i = 0; i < units_.size(); ++i) {
      account_.enter_unit(footprint_.units[i].name);
      gather(units_[i], static_cast<std::ptrdiff_t>(i) + 1);
      play(footprint_.units[i].pass->forward, account_);
      if (memory_.reshard_after_forward) units_[i].reshard();
    }
    account_.leave_units();
    play(footprint_.after.forward, account_);
  }

  void backward(bool sync) {
    const LossScope loss(account_);
    root_.begin_backward();
    play_root(footprint_.after.backward);
    for (std::size_t i = units_.size(); i-- > 0;) {
      account_.enter_unit(footprint_.units[i].name);
      backward_of_unit(i, sync);
    }
    account_.leave_units();
    play_root(footprint_.before.backward);
    end_backward(root_, sync);
    finish_reduce();
  }

  // What is in no unit is used at both ends of the model: its time comes last.
  void play_root(const models::MemoryScript& script) {
    play(script, account_, [&](std::int64_t bytes) {
      root_.take_gradient(bytes);
      account_.free(MemoryCategory::Activation, bytes);
    });
  }

  // A unit's last gradient ends its backward, and is still there then.
  void backward_of_unit(std::size_t index, bool sync) {
    Unit& unit = units_[index];
    const models::UnitFootprint& described = footprint_.units[index];
    gather(unit, static_cast<std::ptrdiff_t>(index) - 1);
    unit.begin_backward();
    play_again(described, account_);
    play(described.pass->backward, account_, [&](std::int64_t bytes) {
      unit.take_gradient(bytes);
      if (unit.taken() == described.parameters.size()) end_backward(unit, sync);
      account_.free(MemoryCategory::Activation, bytes);
    });
  }

  void gather(Unit& unit, std::ptrdiff_t next) {
    if (unit.empty()) return;
    unit.start_gather();
    unit.finish_gather();
    const bool there_is = next >= 0 && next < static_cast<std::ptrdiff_t>(units_.size());
    if (memory_.prefetch && there_is) units_[next].start_gather();
  }
  void end_backward(Unit& unit, bool sync) {
    if (unit.empty()) return;
    if (sync || memory_.reshard_after_backward) unit.reshard();
    if (!sync) return;
    finish_reduce();
    unit.start_reduce();
    reducing_ = &unit;
  }
  void finish_reduce() {
    if (reducing_ != nullptr) reducing_->finish_reduce();
    reducing_ = nullptr;
  }

  const FsdpMemory& memory_;
  const models::Footprint& footprint_;
  MemoryAccount& account_;
  Unit root_;
  std::vector<Unit> units_;
  Unit* reducing_ = nullptr;
};

}  // namespace

StepMemory fsdp_step_memory(const FsdpMemory& memory, const models::Footprint& footprint,
                            const std::vector<bool>& syncs, std::int64_t other_bytes) {
  MemoryAccount account;
  account.hold(MemoryCategory::Other, other_bytes);
  Step step(memory, footprint, account);
  const int micro_batches = static_cast<int>(syncs.size());
  for (int i = 0; i < micro_batches; ++i) step.micro_batch(i, syncs[static_cast<std::size_t>(i)]);
  play_optimizer(micro_batches - 1, footprint.steps_parameters, account);
  return account.memory();
}

}  // namespace gradsync::sync
