#include "harness/memory/fsdp_memory.h"

#include "harness/memory/fsdp_unit.h"

namespace gradsync::memory {
namespace {

using measure::MemoryCategory;

// The visits of FullyShardedDataParallel.
class Step {
 public:
  Step(const FsdpMemory& memory, const models::Footprint& footprint, const FsdpAccounts& accounts)
      : memory_(memory),
        footprint_(footprint),
        account_(accounts.device),
        root_(footprint.other_parameters, footprint.other_frozen, memory, accounts) {
    for (const models::UnitFootprint& unit : footprint.units) {
      units_.emplace_back(unit.parameters, unit.frozen, memory, accounts);
    }
  }

  template <typename Do>
  void each_unit(const Do& act) {
    act(root_);
    for (FsdpUnit& unit : units_) act(unit);
  }

  std::int64_t gradient_bytes() const {
    std::int64_t bytes = root_.gradient_bytes();
    for (const FsdpUnit& unit : units_) bytes += unit.gradient_bytes();
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
    FsdpUnit& unit = units_[index];
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

  void gather(FsdpUnit& unit, std::ptrdiff_t next) {
    if (unit.empty()) return;
    unit.start_gather();
    unit.finish_gather();
    const bool there_is = next >= 0 && next < static_cast<std::ptrdiff_t>(units_.size());
    if (memory_.prefetch && there_is) units_[next].start_gather();
  }
  void end_backward(FsdpUnit& unit, bool sync) {
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
  FsdpUnit root_;
  std::vector<FsdpUnit> units_;
  FsdpUnit* reducing_ = nullptr;
};

// A rank from its model's construction on.
class History {
 public:
  History(const FsdpMemory& memory, const models::Footprint& footprint)
      : memory_(memory),
        footprint_(footprint),
        account_(without_limit(memory.device)),
        step_(memory, footprint, {account_, host_}) {}

  // Holds what stays between steps. On a GPU it does so as a rank does, with what that frees again:
  // where a large block lies decides how much of its segment stays with it.
  void settle(const std::vector<std::int64_t>& other_bytes) {
    const bool is_gpu = memory_.device.is_gpu;
    if (is_gpu) step_.each_unit([](FsdpUnit& unit) { unit.hold_parameters(); });
    for (const std::int64_t bytes : other_bytes) account_.hold(MemoryCategory::Other, bytes);
    step_.each_unit([&](FsdpUnit& unit) { is_gpu ? unit.shard_parameters() : unit.hold_shard(); });
    if (footprint_.steps_parameters) {
      step_.each_unit([](FsdpUnit& unit) { unit.hold_optimizer_state(); });
    }
    account_.hold_workspaces(memory_.device, footprint_);
    if (is_gpu) reach_steady_state();
  }

  // Plays a step, and forgets the peaks of those before it.
  void play(const std::vector<bool>& syncs) {
    account_.forget_peak();
    const int micro_batches = static_cast<int>(syncs.size());
    for (int i = 0; i < micro_batches; ++i) {
      step_.micro_batch(i, syncs[static_cast<std::size_t>(i)]);
    }
    account_.enter(micro_batches - 1, "optimizer");
    if (footprint_.steps_parameters && !memory_.optimizer_in_backward) {
      play_step(memory_.offload, step_.gradient_bytes(), account_, host_);
    }
    step_.each_unit([](FsdpUnit& unit) { unit.clear_gradient(); });
  }

  StepMemory memory() const { return account_.memory_with(host_); }

 private:
  static DeviceMemory without_limit(DeviceMemory device) {
    device.limit_bytes.reset();
    return device;
  }

  // As Workload::reach_steady_state. A budget counts from here on (BudgetScope in rank_main.cpp).
  void reach_steady_state() {
    play({true});
    account_.release_unused();
    account_.set_limit(memory_.device.limit_bytes);
  }

  const FsdpMemory& memory_;
  const models::Footprint& footprint_;
  MemoryAccount account_;
  MemoryAccount host_;
  Step step_;
};

}  // namespace

StepMemory fsdp_step_memory(const FsdpMemory& memory, const models::Footprint& footprint,
                            const std::vector<bool>& syncs,
                            const std::vector<std::int64_t>& other_bytes) {
  History history(memory, footprint);
  history.settle(other_bytes);
  if (memory.device.is_gpu) history.play(syncs);  // every later step finds this one's segments
  history.play(syncs);
  return history.memory();
}

}  // namespace gradsync::memory
