#include "harness/sync/fsdp/memory_formula.h"

#include <algorithm>

namespace gradsync::sync {
namespace {

using measure::MemoryCategory;

class Account {
 public:
  void hold(MemoryCategory category, std::int64_t bytes) {
    std::int64_t& held = measure::bytes_of(held_, category);
    held += bytes;
    std::int64_t& highest = measure::bytes_of(highest_, category);
    highest = std::max(highest, held);
  }
  void free(MemoryCategory category, std::int64_t bytes) {
    measure::bytes_of(held_, category) -= bytes;
  }
  const measure::CategoryBytes& highest() const { return highest_; }

 private:
  measure::CategoryBytes held_{};
  measure::CategoryBytes highest_{};
};

// The allocations of one FlatUnit.
class Unit {
 public:
  Unit(std::int64_t elements, const FsdpMemory& memory, Account& account)
      : memory_(memory),
        account_(account),
        part_((elements + memory.ranks - 1) / memory.ranks),
        whole_(part_ * memory.ranks) {
    constexpr int kMoments = 2;
    constexpr std::int64_t kStepCounterBytes = 4;
    if (elements == 0) return;
    account_.hold(MemoryCategory::ShardedParameter, part_ * memory_.stored_bytes);
    account_.hold(MemoryCategory::OptimizerState,
                  kMoments * part_ * memory_.stored_bytes + kStepCounterBytes);
  }

  bool empty() const { return whole_ == 0; }

  void start_gather() {
    if (gathered_ || gathering_) return;
    gathering_ = true;
    account_.hold(MemoryCategory::GatheredParameter, whole_ * memory_.param_bytes);
    account_.hold(MemoryCategory::Communication, gather_cast());
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
  void take_gradients() {
    if (has_gradient_) return;
    has_gradient_ = true;
    account_.hold(MemoryCategory::UnshardedGradient, whole_ * memory_.gradient_bytes);
  }
  void start_reduce() {
    take_gradients();
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
    add_to_shard_gradient();
  }

 private:
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
  Account& account_;
  std::int64_t part_;
  std::int64_t whole_;
  bool gathering_ = false;
  bool gathered_ = false;
  bool has_gradient_ = false;
  bool has_shard_gradient_ = false;
};

// The visits of FullyShardedDataParallel.
class Step {
 public:
  Step(const FsdpMemory& memory, Account& account)
      : memory_(memory), root_(memory.root_elements, memory, account) {
    for (const std::int64_t elements : memory.unit_elements) {
      units_.emplace_back(elements, memory, account);
    }
  }

  void micro_batch(bool sync) {
    const auto count = static_cast<std::ptrdiff_t>(units_.size());
    gather(root_, 0);
    for (std::ptrdiff_t i = 0; i < count; ++i) {
      gather(units_[i], i + 1);
      if (memory_.reshard_after_forward) units_[i].reshard();
    }
    if (memory_.root_ends_model && !root_.empty()) root_.take_gradients();
    for (std::ptrdiff_t i = count - 1; i >= 0; --i) {
      gather(units_[i], i - 1);
      end_backward(units_[i], sync);
    }
    end_backward(root_, sync);
    finish_reduce();
  }

 private:
  void gather(Unit& unit, std::ptrdiff_t next) {
    if (unit.empty()) return;
    unit.start_gather();
    unit.finish_gather();
    const bool there_is = next >= 0 && next < static_cast<std::ptrdiff_t>(units_.size());
    if (memory_.prefetch && there_is) units_[next].start_gather();
  }
  void end_backward(Unit& unit, bool sync) {
    if (unit.empty()) return;
    unit.take_gradients();
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
  Unit root_;
  std::vector<Unit> units_;
  Unit* reducing_ = nullptr;
};

}  // namespace

measure::CategoryBytes highest_by_category(const FsdpMemory& memory,
                                           const std::vector<bool>& syncs) {
  Account account;
  Step step(memory, account);
  for (const bool sync : syncs) step.micro_batch(sync);
  return account.highest();
}

}  // namespace gradsync::sync
