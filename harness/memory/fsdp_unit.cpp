#include "harness/memory/fsdp_unit.h"

#include "harness/memory/flat_layout.h"

namespace gradsync::memory {

using measure::MemoryCategory;

FsdpUnit::FsdpUnit(const std::vector<std::int64_t>& trained,
                   const std::vector<std::int64_t>& frozen, const FsdpMemory& memory,
                   const FsdpAccounts& accounts)
    : memory_(memory),
      account_(accounts.device),
      host_(accounts.host),
      home_(memory.offload == Offload::Parameters ? host_ : account_),
      trained_(trained),
      frozen_(frozen),
      whole_(flat_layout(trained, memory.param_bytes, memory.ranks).padded),
      part_(whole_ / memory.ranks),
      gathers_(whole_ + flat_layout(frozen, memory.param_bytes, memory.ranks).padded) {}

void FsdpUnit::hold_parameters() {
  for (const std::int64_t elements : trained_) {
    parameters_[0].push_back(
        account_.hold_tensor(MemoryCategory::Other, elements * memory_.stored_bytes));
  }
  for (const std::int64_t elements : frozen_) {
    parameters_[1].push_back(
        account_.hold_tensor(MemoryCategory::Other, elements * memory_.stored_bytes));
  }
}

void FsdpUnit::shard_parameters() {
  hold_shard();
  const auto gathered = gathered_parts();
  for (std::size_t part = 0; part < gathered.size(); ++part) {
    cut_shard(parameters_[part], gathered[part]);
  }
}

// All of it is copied into one tensor to cut the shard; then the parameters become views of what is
// gathered, and that goes.
void FsdpUnit::cut_shard(std::vector<HeldTensor>& parameters, std::int64_t gathered_bytes) {
  const std::int64_t copied = gathered_bytes / memory_.param_bytes * memory_.stored_bytes;
  account_.hold(MemoryCategory::Other, copied);
  account_.free(MemoryCategory::Other, copied);
  account_.hold(MemoryCategory::GatheredParameter, gathered_bytes);
  account_.free(parameters);
  account_.free(MemoryCategory::GatheredParameter, gathered_bytes);
}

void FsdpUnit::hold_shard() {
  if (!empty()) home_.hold(MemoryCategory::ShardedParameter, shards());
}

void FsdpUnit::hold_optimizer_state() {
  constexpr std::int64_t kStepCounterBytes = 4;
  if (!trains()) return;
  if (memory_.offload == Offload::OptimizerState) {  // what it steps
    host_.hold(MemoryCategory::ShardedParameter, part_ * memory_.stored_bytes);
  }
  const std::int64_t moment = part_ * memory_.stored_bytes;
  for (const std::int64_t bytes : {moment, moment, kStepCounterBytes}) {
    (memory_.offload == Offload::None ? account_ : host_)
        .hold(MemoryCategory::OptimizerState, bytes);
  }
}

void FsdpUnit::start_gather() {
  if (gathered_ || gathering_) return;
  gathering_ = true;
  for (const std::int64_t bytes : gathered_parts()) {
    gathered_tensors_.push_back(account_.hold_tensor(MemoryCategory::GatheredParameter, bytes));
  }
  hold_gather_input();
  account_.hold(MemoryCategory::Communication, by_rank());
  if (!memory_.backend_copies_gathers) return;
  account_.hold(MemoryCategory::Communication, gathers_ * memory_.param_bytes);
  account_.free(MemoryCategory::Communication, gathers_ * memory_.param_bytes);
}

void FsdpUnit::finish_gather() {
  if (!gathering_) return;
  gathering_ = false;
  gathered_ = true;
  account_.free(MemoryCategory::Communication, gather_cast() > 0 ? gather_cast() : shard_copy());
  account_.free(MemoryCategory::Communication, by_rank());
}

void FsdpUnit::reshard() {
  finish_gather();
  if (!gathered_) return;
  gathered_ = false;
  account_.free(gathered_tensors_);
}

void FsdpUnit::forget_gather() {
  if (gathering_) reshard();
}

void FsdpUnit::begin_backward() {
  taken_ = 0;
  kept_ = gradient_.has_value();
}

void FsdpUnit::take_gradient(std::int64_t bytes) {
  ++taken_;
  ensure_gradient();
  if (kept_) add_to_kept(bytes);
}

void FsdpUnit::start_reduce() {
  ensure_gradient();
  if (casts_gradient()) {
    const HeldTensor cast = account_.hold_tensor(MemoryCategory::Communication, on_the_wire());
    account_.free(*gradient_);
    gradient_ = cast;
  }
  reduced_ = account_.hold_tensor(MemoryCategory::ShardedGradient, part_ * memory_.reduce_bytes);
  if (memory_.backend_copies_reductions) {
    account_.hold(MemoryCategory::Communication, on_the_wire());
  }
}

void FsdpUnit::finish_reduce() {
  if (memory_.backend_copies_reductions) {
    account_.free(MemoryCategory::Communication, on_the_wire());
  }
  account_.free(*gradient_);
  gradient_.reset();
  // The sum over the ranks becomes their mean.
  account_.with_number(MemoryCategory::Activation, memory_.reduce_bytes);
  memory_.offload == Offload::Parameters ? add_to_host_gradient() : add_to_shard_gradient();
  if (memory_.optimizer_in_backward) step();
}

void FsdpUnit::clear_gradient() {
  if (!shard_gradient_) return;
  home_.free(*shard_gradient_);
  shard_gradient_.reset();
}

// A sum in fewer bits is widened to be added to, and narrowed again; a gradient that is added to
// more bits is widened.
void FsdpUnit::add_to_kept(std::int64_t bytes) {
  if (memory_.gradient_bytes == memory_.param_bytes) return;
  for (int i = 0; i < 2; ++i) account_.hold(MemoryCategory::Activation, bytes);
  for (int i = 0; i < 2; ++i) account_.free(MemoryCategory::Activation, bytes);
}

void FsdpUnit::step() {
  account_.enter_phase("optimizer");
  play_step(memory_.offload, gradient_bytes(), account_, host_);
  account_.enter_phase("backward");
  clear_gradient();
}

void FsdpUnit::ensure_gradient() {
  if (gradient_) return;
  gradient_ =
      account_.hold_tensor(MemoryCategory::UnshardedGradient, whole_ * memory_.gradient_bytes);
}

// A gradient that comes in another dtype is cast: to stay, or to be added.
void FsdpUnit::add_to_shard_gradient() {
  const bool same_dtype = memory_.reduce_bytes == memory_.stored_bytes;
  if (!shard_gradient_ && same_dtype) {
    shard_gradient_ = reduced_;
    return;
  }
  keep_or_add(
      account_.hold_tensor(MemoryCategory::ShardedGradient, same_dtype ? 0 : gradient_bytes()));
  account_.free(reduced_);
}

// The same on the device, before the copy.
void FsdpUnit::add_to_host_gradient() {
  if (memory_.reduce_bytes != memory_.stored_bytes) {
    const HeldTensor cast = account_.hold_tensor(MemoryCategory::ShardedGradient, gradient_bytes());
    account_.free(reduced_);
    reduced_ = cast;
  }
  const HeldTensor copy = host_.hold_tensor(MemoryCategory::ShardedGradient, gradient_bytes());
  account_.free(reduced_);
  keep_or_add(copy);
}

void FsdpUnit::keep_or_add(const HeldTensor& gradient) {
  if (shard_gradient_) {
    home_.free(gradient);
  } else {
    shard_gradient_ = gradient;
  }
}

// An offloaded shard is copied, and then cast like any other.
void FsdpUnit::hold_gather_input() {
  account_.hold(MemoryCategory::Communication, shard_copy());
  account_.hold(MemoryCategory::Communication, gather_cast());
  if (gather_cast() > 0) account_.free(MemoryCategory::Communication, shard_copy());
}

std::int64_t FsdpUnit::gather_cast() const {
  return memory_.param_bytes == memory_.stored_bytes
             ? 0
             : gathers_ / memory_.ranks * memory_.param_bytes;
}

}  // namespace gradsync::memory
