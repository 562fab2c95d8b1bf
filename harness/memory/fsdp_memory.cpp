#include "harness/memory/fsdp_memory.h"

#include <array>

#include "harness/memory/flat_layout.h"

namespace gradsync::memory {
namespace {

using measure::MemoryCategory;

struct Accounts {
  MemoryAccount& device;
  MemoryAccount& host;
};

// The allocations of one FlatUnit.
class Unit {
 public:
  // Sizes of its parameters, in elements.
  Unit(const std::vector<std::int64_t>& trained, const std::vector<std::int64_t>& frozen,
       bool has_moments, const FsdpMemory& memory, const Accounts& accounts)
      : memory_(memory),
        account_(accounts.device),
        host_(accounts.host),
        home_(memory.offload == Offload::Parameters ? host_ : account_),
        parameters_(trained.size()),
        is_all_trained_(frozen.empty()),
        whole_(flat_layout(trained, memory.param_bytes, memory.ranks).padded),
        part_(whole_ / memory.ranks),
        gathers_(whole_ + flat_layout(frozen, memory.param_bytes, memory.ranks).padded) {
    constexpr std::int64_t kStepCounterBytes = 4;
    if (empty()) return;
    home_.hold(MemoryCategory::ShardedParameter, shards());
    if (!has_moments || !trains()) return;
    if (memory_.offload == Offload::OptimizerState) {  // what it steps
      host_.hold(MemoryCategory::ShardedParameter, part_ * memory_.stored_bytes);
    }
    const std::int64_t moment = part_ * memory_.stored_bytes;
    for (const std::int64_t bytes : {moment, moment, kStepCounterBytes}) {
      (memory_.offload == Offload::None ? account_ : host_)
          .hold(MemoryCategory::OptimizerState, bytes);
    }
  }

  bool empty() const { return gathers_ == 0; }
  std::int64_t gradient_bytes() const { return part_ * memory_.stored_bytes; }  // a shard's
  bool trains() const { return whole_ > 0; }
  bool is_all_trained() const { return is_all_trained_; }

  void start_gather() {
    if (gathered_ || gathering_) return;
    gathering_ = true;
    for (const std::int64_t bytes : gathered_parts()) {
      account_.hold(MemoryCategory::GatheredParameter, bytes);
    }
    hold_gather_input();
    account_.hold(MemoryCategory::Communication, by_rank());
    if (!memory_.backend_copies_gathers) return;
    account_.hold(MemoryCategory::Communication, gathers_ * memory_.param_bytes);
    account_.free(MemoryCategory::Communication, gathers_ * memory_.param_bytes);
  }
  void finish_gather() {
    if (!gathering_) return;
    gathering_ = false;
    gathered_ = true;
    account_.free(MemoryCategory::Communication, gather_cast() > 0 ? gather_cast() : shard_copy());
    account_.free(MemoryCategory::Communication, by_rank());
  }
  void reshard() {
    finish_gather();
    if (!gathered_) return;
    gathered_ = false;
    for (const std::int64_t bytes : gathered_parts()) {
      account_.free(MemoryCategory::GatheredParameter, bytes);
    }
  }
  // What was gathered ahead and then not needed.
  void forget_gather() {
    if (gathering_) reshard();
  }
  // The gradients of the next backward add to those kept.
  void begin_backward() {
    taken_ = 0;
    kept_ = has_gradient_;
  }
  bool has_all_gradients() const { return taken_ == parameters_; }
  // A parameter's gradient, which stays until autograd lets it go.
  void take_gradient(std::int64_t bytes) {
    ++taken_;
    ensure_gradient();
    if (kept_) add_to_kept(bytes);
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
    memory_.offload == Offload::Parameters ? add_to_host_gradient() : add_to_shard_gradient();
    if (memory_.optimizer_in_backward) step();
  }

 private:
  // What accumulates in fewer bits is widened to be added to, and the sum narrowed again; what is
  // added to more bits is widened.
  void add_to_kept(std::int64_t bytes) {
    if (memory_.gradient_bytes == memory_.param_bytes) return;
    for (int i = 0; i < 2; ++i) account_.hold(MemoryCategory::Activation, bytes);
    for (int i = 0; i < 2; ++i) account_.free(MemoryCategory::Activation, bytes);
  }

  void step() {
    account_.enter_phase("optimizer");
    play_step(memory_.offload, gradient_bytes(), account_, host_);
    account_.enter_phase("backward");
    home_.free(MemoryCategory::ShardedGradient, part_ * memory_.stored_bytes);
    has_shard_gradient_ = false;
  }

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

  // The same on the device, before the copy.
  void add_to_host_gradient() {
    const std::int64_t stored = part_ * memory_.stored_bytes;
    if (memory_.reduce_bytes != memory_.stored_bytes) {
      account_.hold(MemoryCategory::ShardedGradient, stored);
      account_.free(MemoryCategory::ShardedGradient, part_ * memory_.reduce_bytes);
    }
    host_.hold(MemoryCategory::ShardedGradient, stored);
    account_.free(MemoryCategory::ShardedGradient, stored);
    if (has_shard_gradient_) host_.free(MemoryCategory::ShardedGradient, stored);
    has_shard_gradient_ = true;
  }

  // What is offloaded is copied, and then cast, as what is not.
  void hold_gather_input() {
    account_.hold(MemoryCategory::Communication, shard_copy());
    account_.hold(MemoryCategory::Communication, gather_cast());
    if (gather_cast() > 0) account_.free(MemoryCategory::Communication, shard_copy());
  }

  // What is trained, and what is not.
  std::array<std::int64_t, 2> gathered_parts() const {
    return {whole_ * memory_.param_bytes, (gathers_ - whole_) * memory_.param_bytes};
  }
  std::int64_t shards() const { return gathers_ / memory_.ranks * memory_.stored_bytes; }
  std::int64_t shard_copy() const { return memory_.offload == Offload::Parameters ? shards() : 0; }
  bool casts_gradient() const { return memory_.gradient_bytes != memory_.reduce_bytes; }
  std::int64_t gather_cast() const {
    return memory_.param_bytes == memory_.stored_bytes
               ? 0
               : gathers_ / memory_.ranks * memory_.param_bytes;
  }
  // What arrives where some is frozen and some is not, before it is copied to where it belongs.
  std::int64_t by_rank() const {
    return trains() && !is_all_trained_ ? gathers_ * memory_.param_bytes : 0;
  }
  std::int64_t on_the_wire() const { return whole_ * memory_.reduce_bytes; }

  const FsdpMemory& memory_;
  MemoryAccount& account_;
  MemoryAccount& host_;
  MemoryAccount& home_;     // where shards and their gradients are
  std::size_t parameters_;  // that are trained
  bool is_all_trained_;
  std::int64_t whole_;    // of what is trained
  std::int64_t part_;     // a rank's of it
  std::int64_t gathers_;  // with what is frozen
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
  Step(const FsdpMemory& memory, const models::Footprint& footprint, const Accounts& accounts)
      : memory_(memory),
        footprint_(footprint),
        account_(accounts.device),
        root_(footprint.other_parameters, footprint.other_frozen, footprint.steps_parameters,
              memory, accounts) {
    for (const models::UnitFootprint& unit : footprint.units) {
      units_.emplace_back(unit.parameters, unit.frozen, footprint.steps_parameters, memory,
                          accounts);
    }
  }

  // Of all shards' gradients.
  std::int64_t gradient_bytes() const {
    std::int64_t bytes = root_.gradient_bytes();
    for (const Unit& unit : units_) bytes += unit.gradient_bytes();
    return bytes;
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
    const LossScope loss(footprint_.element_bytes, account_);
    root_.begin_backward();
    std::size_t first = units_.size();
    const bool ends_frozen = first > 0 && !runs_backward(first - 1);
    if (memory_.prefetch && !root_.empty() && ends_frozen) units_.back().start_gather();
    play_root(footprint_.after.backward);
    for (; first > 0 && runs_backward(first - 1); --first) {
      account_.enter_unit(footprint_.units[first - 1].name);
      backward_of_unit(first - 1, sync);
    }
    account_.leave_units();
    play_root(footprint_.before.backward);
    while (first-- > 0) {
      units_[first].forget_gather();
      end_backward(units_[first], sync);
    }
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

  // A unit's last gradient ends its backward, and is still there then. Where some of it is frozen,
  // the gradient of its input may need that: then it ends with the last of all that it does.
  void backward_of_unit(std::size_t index, bool sync) {
    Unit& unit = units_[index];
    const models::UnitFootprint& described = footprint_.units[index];
    gather(unit, static_cast<std::ptrdiff_t>(index) - 1);
    unit.begin_backward();
    play_again(described, account_);
    play(described.pass->backward, account_, [&](std::int64_t bytes) {
      unit.take_gradient(bytes);
      if (unit.is_all_trained() && unit.has_all_gradients()) end_backward(unit, sync);
      account_.free(MemoryCategory::Activation, bytes);
    });
    if (!unit.is_all_trained()) end_backward(unit, sync);
  }

  bool runs_backward(std::size_t unit) const { return footprint_.units[unit].runs_backward; }

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
    if (!sync || !unit.trains()) return;
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
                            const std::vector<bool>& syncs,
                            const std::vector<std::int64_t>& other_bytes) {
  MemoryAccount account(memory.device);
  MemoryAccount host;
  for (const std::int64_t bytes : other_bytes) account.hold(MemoryCategory::Other, bytes);
  Step step(memory, footprint, {account, host});
  account.hold_workspaces(memory.device, footprint);
  const int micro_batches = static_cast<int>(syncs.size());
  for (int i = 0; i < micro_batches; ++i) step.micro_batch(i, syncs[static_cast<std::size_t>(i)]);
  account.enter(micro_batches - 1, "optimizer");
  if (footprint.steps_parameters && !memory.optimizer_in_backward) {
    play_step(memory.offload, step.gradient_bytes(), account, host);
  }
  return account.memory_with(host);
}

}  // namespace gradsync::memory
