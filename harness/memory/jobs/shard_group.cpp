#include "harness/memory/jobs/shard_group.h"

#include <algorithm>
#include <utility>

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
    : job_(job), context_(context), is_root_(is_root), gradients_(parameters.size()) {
  for (const std::size_t index : parameters) {
    const models::RecordedParameter& parameter = profile.parameters[index];
    const std::int64_t shard = shard_elements(parameter, job.ranks);
    parameters_.push_back({index, parameter.elements(), shard, parameter.trains});
    shard_ += shard;
    if (parameter.trains) trained_shard_ += shard;
  }
  whole_ = shard_ * job.ranks;
  trained_whole_ = trained_shard_ * job.ranks;
}

void ShardGroup::shard() {
  std::vector<HeldTensor> whole;
  for (const Parameter& parameter : parameters_) {
    whole.push_back(context_.account.hold_tensor(MemoryCategory::ShardedParameter,
                                                 parameter.elements * job_.stored_bytes));
  }
  for (const Parameter& parameter : parameters_) {
    context_.account.hold(MemoryCategory::ShardedParameter, parameter.shard * job_.stored_bytes);
  }
  context_.account.free(whole);
}

void ShardGroup::make_moments() {
  for (const Parameter& parameter : parameters_) {
    if (parameter.trains) hold_moments(parameter.shard * job_.stored_bytes, context_.account);
  }
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
  const auto communication = MemoryCategory::Communication;
  const std::int64_t bytes = whole_ * job_.param_bytes;
  const bool casts = job_.param_bytes != job_.stored_bytes;
  const HeldTensor cast =
      account.hold_tensor(communication, casts ? shard_ * job_.param_bytes : 0, Stream::Gather);
  buffer_.push_back(account.hold_tensor(communication, bytes, Stream::Gather));
  if (job_.backend_copies) account.pass_beside(communication, bytes);
  account.free(cast);
}

// The parameters are copied out of the buffer that all ranks gathered into.
void ShardGroup::finish_gather(bool in_forward) {
  if (!is_gathering_) return;
  is_gathering_ = false;
  is_gathered_ = true;
  MemoryAccount& account = context_.account;
  if (in_forward) account.free(context_.kept_gather);
  for (const Parameter& parameter : parameters_) {
    gathered_.push_back(account.hold_tensor(MemoryCategory::GatheredParameter,
                                            parameter.shard * job_.ranks * job_.param_bytes));
  }
  if (in_forward) {
    context_.kept_gather.swap(buffer_);
  } else {
    account.free(buffer_);
  }
}

void ShardGroup::reshard() {
  is_gathered_ = false;
  context_.account.free(gathered_);
}

void ShardGroup::take_gradient(std::size_t parameter, const HeldTensor& gradient) {
  const auto found = std::ranges::find(parameters_, parameter, &Parameter::index);
  gradients_[static_cast<std::size_t>(found - parameters_.begin())] = gradient;
}

void ShardGroup::leave_backward(bool sync) {
  is_in_backward_ = false;
  is_left_ = true;
  if (empty()) return;
  if (!widened_.empty()) free_gradients();  // added to what was kept
  if (job_.reshard_after_backward) reshard();
  if (sync) {
    reduce();
  } else {
    widen_gradients();
  }
}

void ShardGroup::free_gradients() {
  for (HeldTensor& gradient : gradients_) {
    context_.account.free(gradient);
    gradient = {MemoryCategory::UnshardedGradient};
  }
}

// Gradients that stay are cast to what they are reduced in, to be added up in it.
void ShardGroup::widen_gradients() {
  if (job_.reduce_bytes == job_.param_bytes || !has_gradients()) return;
  for (const HeldTensor& gradient : gradients_) {
    widened_.push_back(context_.account.hold_tensor(
        MemoryCategory::UnshardedGradient, gradient.bytes / job_.param_bytes * job_.reduce_bytes));
  }
  free_gradients();
}

void ShardGroup::reduce() {
  if (!has_gradients() && widened_.empty()) return;
  MemoryAccount& account = context_.account;
  account.free(context_.kept_reduce);
  const std::int64_t input = trained_whole_ * job_.reduce_bytes;
  context_.kept_reduce.push_back(account.hold_tensor(MemoryCategory::Communication, input));
  // Packed, they go, but the last one: a loop's variable refers to it until all is reduced.
  const HeldTensor last = take_last();
  account.free(widened_);
  free_gradients();
  HeldTensor output = account.hold_tensor(MemoryCategory::ShardedGradient,
                                          trained_shard_ * job_.reduce_bytes, Stream::Reduce);
  if (job_.backend_copies && job_.ranks > 1) {
    account.pass_beside(MemoryCategory::Communication, input);
  }
  if (job_.reduce_bytes != job_.stored_bytes) {
    const HeldTensor reduced = output;
    output = account.hold_tensor(MemoryCategory::ShardedGradient,
                                 trained_shard_ * job_.stored_bytes, Stream::Reduce);
    account.free(reduced);
  }
  if (shard_gradient_.empty()) {
    shard_gradient_.push_back(output);
  } else {
    account.free(output);  // added to the one before
  }
  account.free(last);
}

bool ShardGroup::has_gradients() const {
  return std::ranges::any_of(gradients_, [](const HeldTensor& held) { return held.bytes > 0; });
}

HeldTensor ShardGroup::take_last() {
  HeldTensor last{MemoryCategory::UnshardedGradient};
  if (job_.ranks == 1) return last;
  for (auto* tensors : {&widened_, &gradients_}) {
    const auto found = std::find_if(tensors->rbegin(), tensors->rend(),
                                    [](const HeldTensor& held) { return held.bytes > 0; });
    if (found != tensors->rend()) {
      std::swap(last, *found);
      return last;
    }
  }
  return last;
}

}  // namespace gradsync::memory
