// The account of a predicted step: what is held, by category, and its peak. The rules are those of
// the meter that measures a real one (measure/memory.h), so that both can be compared to the byte.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/measure/memory_category.h"
#include "harness/memory/device_memory.h"
#include "models/footprint.h"

namespace gradsync::memory {

// Which of a rank's tensors are offloaded: they live on the host, out of a GPU's memory.   No
// torch.

enum class Offload : std::uint8_t {
  None,
  // The optimizer's moments, and a copy of what it steps: gradients are copied to it, it steps on
  // the host, and parameters are copied back (sync/host_optimizer.h).
  OptimizerState,
  // FSDP's shards, with their gradients and moments: shards are copied to the device for each
  // gather, each reduced gradient is copied back, and the optimizer steps where they are. As
  // fully_shard's CPUOffloadPolicy.
  Parameters
};

// A place in a step.
struct StepPlace {
  int micro_batch = -1;  // from 0; -1: before the first, so between steps
  std::string phase;     // "forward", "recompute", "backward", "optimizer"; "" between steps
  std::string unit;      // of the model; "" outside of all

  bool operator==(const StepPlace&) const = default;
};

// What one rank holds in a step.
struct StepMemory {
  std::int64_t peak_bytes = 0;
  measure::CategoryBytes peak_by_category{};  // of what the peak consists, at its first instant
  StepPlace peak_place;
  // The most of each category, each by itself: not held together, so no sum.
  measure::CategoryBytes highest_by_category{};
  // Likewise on the host, of what is offloaded.
  std::int64_t host_peak_bytes = 0;
  measure::CategoryBytes host_peak_by_category{};
  // What a GPU's allocator would have reserved, at most: of the device's blocks (device_memory.h),
  // of one stream. Unset: what is held is known in sums alone.
  std::optional<std::int64_t> peak_reserved_bytes;
  bool ran_out = false;  // of what its device may give (device_memory.h); the rest is then too low

  bool operator==(const StepMemory&) const = default;
};

// A tensor that is freed as itself, where several may have its size.
struct HeldTensor {
  measure::MemoryCategory category;
  std::int64_t bytes = 0;                        // as they are counted
  std::optional<DeviceBlocks::Name> block = {};  // unset: sums alone are held
};

class MemoryAccount {
 public:
  // Holds sums alone: what is freed need not be what was held.
  MemoryAccount() = default;
  // Holds allocations, which `device` turns into blocks; those of a CPU are an estimate.
  explicit MemoryAccount(const DeviceMemory& device)
      : blocks_(device.limit_bytes), holds_blocks_(device.is_gpu) {}

  // What `device` keeps for the products of `footprint`, from the first of them on.
  void hold_workspaces(const DeviceMemory& device, const models::Footprint& footprint) {
    const std::int64_t biased = footprint.adds_biases ? device.biased_product_bytes : 0;
    for (const std::int64_t bytes : {device.product_bytes, biased, device.product_bytes}) {
      hold(measure::MemoryCategory::Other, bytes);
    }
  }

  void hold(measure::MemoryCategory category, std::int64_t asked_bytes) {
    if (asked_bytes == 0) return;
    add(category, size(asked_bytes, blocks_ ? blocks_->take(asked_bytes) : 0));
  }
  void free(measure::MemoryCategory category, std::int64_t asked_bytes) {
    if (asked_bytes == 0) return;
    subtract(category, size(asked_bytes, blocks_ ? blocks_->give(asked_bytes) : 0));
  }
  // Likewise, of a tensor that keeps its name.
  HeldTensor hold_tensor(measure::MemoryCategory category, std::int64_t asked_bytes,
                         Stream stream = Stream::Compute) {
    HeldTensor tensor{category, asked_bytes};
    if (asked_bytes == 0) return tensor;
    if (blocks_) {
      tensor.block = blocks_->make(asked_bytes, stream);
      tensor.bytes = size(asked_bytes, blocks_->bytes_of(*tensor.block));
    }
    add(category, tensor.bytes);
    return tensor;
  }
  void free(const HeldTensor& tensor) {
    if (tensor.block) blocks_->free(*tensor.block);
    subtract(tensor.category, tensor.bytes);
  }
  void free(std::vector<HeldTensor>& tensors) {
    for (const HeldTensor& tensor : tensors) free(tensor);
    tensors.clear();
  }
  // Counts what a job on a GPU has on the host, or not at all; the second for a moment.
  void hold_beside(measure::MemoryCategory category, std::int64_t bytes) {
    if (!holds_blocks_) add(category, bytes);
  }
  void pass_beside(measure::MemoryCategory category, std::int64_t bytes) {
    if (holds_blocks_) return;
    add(category, bytes);
    subtract(category, bytes);
  }
  // Moves what was held as `from` to `to`; in the peak as well, if nothing was held since.
  void relabel(measure::MemoryCategory from, measure::MemoryCategory to, std::int64_t asked_bytes) {
    rename(from, to, size(asked_bytes, blocks_ ? blocks_->latest(asked_bytes) : 0));
  }
  void relabel(HeldTensor& tensor, measure::MemoryCategory to) {
    rename(tensor.category, to, tensor.bytes);
    tensor.category = to;
  }
  // Held for a moment: what a tensor in place and a number take, see MemoryScript::with_number.
  void with_number(measure::MemoryCategory category,
                   std::int64_t number_bytes = models::kFloatBytes) {
    constexpr std::int64_t kDoubleBytes = 8;
    pass_beside(category, kDoubleBytes + number_bytes);
  }
  // Returns whether single tensors are followed, so that reserved memory is known.
  bool has_blocks() const { return blocks_.has_value(); }
  // Goes on as if all had begun with what is held now. What is reserved stays, as it does on a GPU.
  void forget_peak() {
    if (blocks_) blocks_->reset_peak();
    memory_ = {};
    memory_.peak_bytes = held_bytes_;
    memory_.peak_by_category = memory_.highest_by_category = held_;
    place_ = peak_place_ = {};
    peak_was_last_ = true;
  }
  // Whether numbers beside tensors are held here, too.
  bool holds_operands() const { return !holds_blocks_; }

  // Gives back reserved memory of the device that nothing holds.
  void release_unused() {
    if (blocks_) blocks_->release_unused();
  }
  // Limits what the device reserves from now on.
  void set_limit(std::optional<std::int64_t> bytes) {
    if (blocks_) blocks_->set_limit(bytes);
  }

  // `phase` and `unit` must live until the last memory() and are not copied.
  void enter(int micro_batch, const char* phase) { place_ = {micro_batch, phase, nullptr}; }
  void enter_phase(const char* phase) { place_.phase = phase; }  // in the same unit
  void enter_unit(const std::string& unit) { place_.unit = &unit; }
  void leave_units() { place_.unit = nullptr; }

  // Returns what was held here, and on the host by `host`.
  StepMemory memory_with(const MemoryAccount& host) const {
    StepMemory both = memory();
    both.host_peak_bytes = host.memory_.peak_bytes;
    both.host_peak_by_category = host.memory_.peak_by_category;
    return both;
  }
  StepMemory memory() const {
    StepMemory memory = memory_;
    memory.ran_out = blocks_ && blocks_->ran_out();
    if (blocks_) memory.peak_reserved_bytes = blocks_->peak_reserved_bytes();
    memory.peak_place = {peak_place_.micro_batch, peak_place_.phase,
                         peak_place_.unit == nullptr ? std::string() : *peak_place_.unit};
    return memory;
  }

 private:
  struct Place {
    int micro_batch = -1;
    const char* phase = "";
    const std::string* unit = nullptr;
  };

  static void move(measure::CategoryBytes& bytes, measure::MemoryCategory from,
                   measure::MemoryCategory to, std::int64_t amount) {
    measure::bytes_of(bytes, from) -= amount;
    measure::bytes_of(bytes, to) += amount;
  }

  void add(measure::MemoryCategory category, std::int64_t bytes) {
    if (bytes == 0) return;
    std::int64_t& held = measure::bytes_of(held_, category);
    held += bytes;
    held_bytes_ += bytes;
    std::int64_t& highest = measure::bytes_of(memory_.highest_by_category, category);
    highest = std::max(highest, held);
    peak_was_last_ = held_bytes_ > memory_.peak_bytes;
    if (!peak_was_last_) return;
    memory_.peak_bytes = held_bytes_;
    memory_.peak_by_category = held_;
    peak_place_ = place_;
  }
  void subtract(measure::MemoryCategory category, std::int64_t bytes) {
    measure::bytes_of(held_, category) -= bytes;
    held_bytes_ -= bytes;
  }
  void rename(measure::MemoryCategory from, measure::MemoryCategory to, std::int64_t bytes) {
    move(held_, from, to, bytes);
    if (peak_was_last_) move(memory_.peak_by_category, from, to, bytes);
    std::int64_t& highest = measure::bytes_of(memory_.highest_by_category, to);
    highest = std::max(highest, measure::bytes_of(held_, to));
  }

  std::int64_t size(std::int64_t asked, std::int64_t block) const {
    return holds_blocks_ ? block : asked;
  }

  std::optional<DeviceBlocks> blocks_;
  bool holds_blocks_ = false;
  measure::CategoryBytes held_{};
  std::int64_t held_bytes_ = 0;
  bool peak_was_last_ = false;  // nothing was held since the peak
  StepMemory memory_;
  Place place_;
  Place peak_place_;
};

// Plays `script`. Gives the bytes of each complete gradient to `on_gradient`: the gradient is held
// as an activation until that changes it.
template <typename OnGradient>
void play(const models::MemoryScript& script, MemoryAccount& account,
          const OnGradient& on_gradient) {
  for (const models::MemoryEvent& event : script.events()) {
    if (event.is_operand && !account.holds_operands()) continue;
    switch (event.kind) {
      case models::MemoryEvent::Kind::Hold:
        account.hold(measure::MemoryCategory::Activation, event.bytes);
        break;
      case models::MemoryEvent::Kind::Free:
        account.free(measure::MemoryCategory::Activation, event.bytes);
        break;
      case models::MemoryEvent::Kind::Gradient:
        on_gradient(event.bytes);
        break;
    }
  }
}

// Forward has no gradients.
inline void play(const models::MemoryScript& script, MemoryAccount& account) {
  play(script, account, [](std::int64_t) {});
}

// Plays what a checkpointed unit computes again before its backward.
inline void play_again(const models::UnitFootprint& unit, MemoryAccount& account) {
  if (unit.pass->again.events().empty()) return;
  account.enter_phase("recompute");
  play(unit.pass->again, account);
  account.enter_phase("backward");
}

// The optimizer's step, fused, needs no more than a number to count its steps by.
inline void play_optimizer(int last_micro_batch, MemoryAccount& account) {
  account.enter(last_micro_batch, "optimizer");
  account.with_number(measure::MemoryCategory::OptimizerState);
}

// The same of what is offloaded, on the host; and where the optimizer's state alone is offloaded,
// copies of the gradients.
inline void play_step(Offload offload, std::int64_t gradient_bytes, MemoryAccount& account,
                      MemoryAccount& host) {
  const std::int64_t copied = offload == Offload::OptimizerState ? gradient_bytes : 0;
  host.hold(measure::MemoryCategory::ShardedGradient, copied);
  (offload == Offload::None ? account : host).with_number(measure::MemoryCategory::OptimizerState);
  host.free(measure::MemoryCategory::ShardedGradient, copied);
}

// What backward() holds around the graph: the divided loss and its gradient, a one.
class LossScope {
 public:
  LossScope(std::int64_t loss_bytes, MemoryAccount& account);
  ~LossScope();
  LossScope(const LossScope&) = delete;
  LossScope& operator=(const LossScope&) = delete;

 private:
  std::int64_t loss_bytes_;
  MemoryAccount& account_;
};

inline LossScope::LossScope(std::int64_t loss_bytes, MemoryAccount& account)
    : loss_bytes_(loss_bytes), account_(account) {
  models::MemoryScript script;
  script.with_number(loss_bytes, loss_bytes);  // the divided loss
  script.free({loss_bytes});                   // the loss
  script.hold({loss_bytes});                   // a one
  script.with_number(loss_bytes, loss_bytes);  // divided, too: the loss's gradient
  play(script, account_);
}

inline LossScope::~LossScope() {
  account_.free(measure::MemoryCategory::Activation, loss_bytes_);
  account_.free(measure::MemoryCategory::Activation, loss_bytes_);
}

}  // namespace gradsync::memory
