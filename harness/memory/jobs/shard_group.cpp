#include "harness/memory/jobs/shard_group.h"

#include "harness/memory/jobs/recorded_pass.h"

namespace gradsync::memory {
namespace {

using measure::MemoryCategory;

// Rows are dealt out: as many to each rank as to the first, the last ones' padded.
std::int64_t shard_elements(const models::RecordedParameter& parameter, int ranks) {
  if (parameter.shape.empty()) return 1;
  const std::int64_t rows = parameter.shape.front();
  if (rows == 0) return 0;
  return (rows + ranks - 1) / ranks * (parameter.elements() / rows);
}

}  // namespace

ShardGroup::ShardGroup(const FullyShardJob& job, const models::MemoryProfile& profile,
                       const std::vector<std::size_t>& parameters, bool is_root,
                       ShardContext& context)
    : job_(job), context_(context), is_root_(is_root) {
  std::int64_t tensors = 0;
  for (const std::size_t index : parameters) {
    const models::RecordedParameter& parameter = profile.parameters[index];
    const std::int64_t shard = shard_elements(parameter, job.ranks);
    shard_ += shard;
    if (!parameter.trains) continue;
    trained_shard_ += shard;
    last_trained_ = parameter.elements();
    ++tensors;
  }
  whole_ = shard_ * job.ranks;
  trained_whole_ = trained_shard_ * job.ranks;
  context.account.hold(MemoryCategory::ShardedParameter, shard_ * job.stored_bytes);
  hold_moments(trained_shard_ * job.stored_bytes, tensors, context.account);
}

void ShardGroup::enter_forward() {
  if (empty()) return;
  gather();
  finish_gather(true);
}

void ShardGroup::leave_forward() {
  if (job_.reshard_after_forward && !is_root_) reshard();
}

bool ShardGroup::enter_backward() {
  if (is_in_backward_) return false;
  is_in_backward_ = true;
  is_left_ = false;
  gather();
  finish_gather(false);
  return true;
}

void ShardGroup::gather() {
  if (empty() || is_gathering_ || is_gathered_) return;
  is_gathering_ = true;
  if (job_.ranks == 1) return;  // copied, when it is waited for
  MemoryAccount& account = context_.account;
  const std::int64_t cast = job_.param_bytes == job_.stored_bytes ? 0 : shard_ * job_.param_bytes;
  account.hold(MemoryCategory::Communication, cast);
  account.hold(MemoryCategory::Communication, whole_ * job_.param_bytes);
  if (job_.backend_copies) {
    account.hold(MemoryCategory::Communication, whole_ * job_.param_bytes);
    account.free(MemoryCategory::Communication, whole_ * job_.param_bytes);
  }
  account.free(MemoryCategory::Communication, cast);
}

// The parameters are copied out of the buffer that all ranks gathered into.
void ShardGroup::finish_gather(bool in_forward) {
  if (!is_gathering_) return;
  is_gathering_ = false;
  is_gathered_ = true;
  MemoryAccount& account = context_.account;
  if (in_forward) {
    account.free(MemoryCategory::Communication, context_.kept_gather_bytes);
    context_.kept_gather_bytes = 0;
  }
  const std::int64_t bytes = whole_ * job_.param_bytes;
  account.hold(MemoryCategory::GatheredParameter, bytes);
  if (job_.ranks == 1) return;
  if (in_forward) {
    context_.kept_gather_bytes = bytes;
  } else {
    account.free(MemoryCategory::Communication, bytes);
  }
}

void ShardGroup::reshard() {
  if (!is_gathered_) return;
  is_gathered_ = false;
  context_.account.free(MemoryCategory::GatheredParameter, whole_ * job_.param_bytes);
}

void ShardGroup::take_gradient(std::int64_t bytes, bool is_made) {
  if (!is_made) return;
  context_.account.relabel(MemoryCategory::Activation, MemoryCategory::UnshardedGradient, bytes);
  gradient_bytes_ += bytes;
}

void ShardGroup::leave_backward(bool sync) {
  is_in_backward_ = false;
  is_left_ = true;
  if (empty()) return;
  if (widened_bytes_ > 0) free_gradients();  // added to what was kept
  if (job_.reshard_after_backward) reshard();
  if (sync) {
    reduce();
  } else {
    widen_gradients();
  }
}

void ShardGroup::free_gradients() {
  context_.account.free(MemoryCategory::UnshardedGradient, gradient_bytes_);
  gradient_bytes_ = 0;
}

// Gradients that stay are cast to what they are reduced in, to be added up in it.
void ShardGroup::widen_gradients() {
  if (job_.reduce_bytes == job_.param_bytes || gradient_bytes_ == 0) return;
  widened_bytes_ = gradient_bytes_ / job_.param_bytes * job_.reduce_bytes;
  context_.account.hold(MemoryCategory::UnshardedGradient, widened_bytes_);
  free_gradients();
}

void ShardGroup::reduce() {
  if (gradient_bytes_ == 0 && widened_bytes_ == 0) return;
  MemoryAccount& account = context_.account;
  account.free(MemoryCategory::Communication, context_.kept_reduce_bytes);
  const std::int64_t input = trained_whole_ * job_.reduce_bytes;
  account.hold(MemoryCategory::Communication, input);
  context_.kept_reduce_bytes = input;
  // Packed, they go, but the last one: a loop's variable refers to it until all is reduced.
  const int bytes = widened_bytes_ > 0 ? job_.reduce_bytes : job_.param_bytes;
  const std::int64_t last = job_.ranks > 1 ? last_trained_ * bytes : 0;
  account.free(MemoryCategory::UnshardedGradient, gradient_bytes_ + widened_bytes_ - last);
  gradient_bytes_ = widened_bytes_ = 0;
  const std::int64_t output = trained_shard_ * job_.reduce_bytes;
  account.hold(MemoryCategory::ShardedGradient, output);
  if (job_.backend_copies && job_.ranks > 1) {
    account.hold(MemoryCategory::Communication, input);
    account.free(MemoryCategory::Communication, input);
  }
  if (job_.reduce_bytes != job_.stored_bytes) {
    account.hold(MemoryCategory::ShardedGradient, trained_shard_ * job_.stored_bytes);
    account.free(MemoryCategory::ShardedGradient, output);
  }
  if (has_shard_gradient_) {
    account.free(MemoryCategory::ShardedGradient, trained_shard_ * job_.stored_bytes);
  }
  has_shard_gradient_ = true;
  account.free(MemoryCategory::UnshardedGradient, last);
}

}  // namespace gradsync::memory
