#include "harness/sync/fsdp/flat_unit.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <utility>

#include "harness/base/errors.h"
#include "harness/comm/process_groups.h"
#include "harness/comm/storage.h"
#include "harness/measure/memory.h"

namespace gradsync::sync {

using measure::MemoryCategory;
using measure::MemoryScope;

using comm::reclaim_storage;
using comm::refill_storage;
using comm::release_storage;

namespace {

at::Tensor empty_flat(std::int64_t elements, at::ScalarType type, const at::Tensor& like,
                      MemoryCategory category) {
  const MemoryScope scope(category);
  return at::empty({elements}, like.options().dtype(type).requires_grad(false));
}

// The same values for another dtype; the tensor itself where it has it already.
at::Tensor in_dtype(const at::Tensor& tensor, at::ScalarType type) {
  const MemoryScope scope(MemoryCategory::Communication);
  return tensor.to(type);
}

std::int64_t bytes_of(std::int64_t elements, at::ScalarType type) {
  return elements * static_cast<std::int64_t>(c10::elementSize(type));
}

}  // namespace

FlatUnit::FlatUnit(std::string name, std::vector<at::Tensor> parameters, const FsdpGroups& groups,
                   const UnitDtypes& dtypes)
    : name_(std::move(name)),
      parameters_(std::move(parameters)),
      groups_(groups),
      dtypes_(dtypes),
      written_(parameters_.size(), false) {
  for (const at::Tensor& parameter : parameters_) {
    offsets_.push_back(elements_);
    elements_ += parameter.numel();
    if (parameter.scalar_type() != parameters_.front().scalar_type()) {
      throw ConfigError(
          fmt::format("fsdp: unit '{}' has parameters of {} and of {}, expected one "
                      "dtype",
                      name_, c10::toString(parameters_.front().scalar_type()),
                      c10::toString(parameter.scalar_type())));
    }
  }
  const std::int64_t ranks = groups_.shard->getSize();
  if (elements_ < ranks) {
    throw ConfigError(
        fmt::format("fsdp: unit '{}' has {} elements, expected at least one for each "
                    "of the {} ranks that share it",
                    name_, elements_, ranks));
  }
  padded_ = (elements_ + ranks - 1) / ranks * ranks;

  const at::NoGradGuard no_grad;
  const at::Tensor& first = parameters_.front();
  shard_ =
      empty_flat(padded_ / ranks, first.scalar_type(), first, MemoryCategory::ShardedParameter);
  if (first.storage().nbytes() > 0) shard_values_of_rank_zero();
  shard_.set_requires_grad(true);

  gathered_ = empty_flat(padded_, dtypes_.param, first, MemoryCategory::GatheredParameter);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].set_data(unsharded_view(gathered_, i));
  }
  release_storage(gathered_);
}

void FlatUnit::shard_values_of_rank_zero() {
  at::Tensor flat = empty_flat(padded_, shard_.scalar_type(), shard_, MemoryCategory::Other);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    unsharded_view(flat, i).copy_(parameters_[i]);
  }
  flat.narrow(0, elements_, padded_ - elements_).zero_();
  std::vector<at::Tensor> from_rank_zero{flat};
  groups_.shard->broadcast(from_rank_zero)->wait();
  if (groups_.replicate) groups_.replicate->broadcast(from_rank_zero)->wait();

  const std::int64_t part = shard_.numel();
  shard_.copy_(flat.narrow(0, groups_.shard->getRank() * part, part));
  release_storage(flat);
}

at::Tensor FlatUnit::unsharded_view(const at::Tensor& flat, std::size_t i) const {
  return flat.narrow(0, offsets_[i], parameters_[i].numel()).view(parameters_[i].sizes());
}

UnitTraffic FlatUnit::traffic() const {
  UnitTraffic traffic;
  traffic.gather_bytes = bytes_of(padded_, dtypes_.param);
  traffic.reduce_bytes = bytes_of(padded_, dtypes_.reduce);
  if (groups_.replicate) traffic.replicate_bytes = bytes_of(shard_.numel(), dtypes_.reduce);
  return traffic;
}

void FlatUnit::start_gather() {
  if (is_gathered_ || gather_) return;
  const at::NoGradGuard no_grad;
  {
    const MemoryScope scope(MemoryCategory::GatheredParameter);
    refill_storage(gathered_);
  }
  gather_input_ = in_dtype(shard_.detach(), dtypes_.param);
  // An alias with a version counter of its own: autograd's saved weights must not seem changed.
  at::Tensor output = gathered_.variable_data();
  const MemoryScope scope(MemoryCategory::Communication);
  gather_ = comm::all_gather(*groups_.shard, output, gather_input_);
}

void FlatUnit::finish_gather() {
  if (!gather_) return;
  gather_->wait();
  gather_.reset();
  if (gather_input_.data_ptr() != shard_.data_ptr()) release_storage(gather_input_);
  gather_input_.reset();
  is_gathered_ = true;
}

void FlatUnit::reshard() {
  finish_gather();  // gathered ahead, and then not needed
  if (!is_gathered_) return;
  release_storage(gathered_);
  is_gathered_ = false;
}

void FlatUnit::ensure_unsharded_gradient() {
  if (unsharded_gradient_.defined()) return;
  unsharded_gradient_ =
      empty_flat(padded_, dtypes_.gradient, gathered_, MemoryCategory::UnshardedGradient);
  written_.assign(parameters_.size(), false);
}

void FlatUnit::take_gradient(std::size_t i) {
  at::Tensor& gradient = parameters_[i].mutable_grad();
  if (!gradient.defined()) return;
  const at::NoGradGuard no_grad;
  ensure_unsharded_gradient();
  const at::Tensor part = unsharded_view(unsharded_gradient_, i);
  if (written_[i]) {
    part.add_(gradient);
  } else {
    part.copy_(gradient);
  }
  written_[i] = true;
  gradient.reset();
  ++taken_;
}

void FlatUnit::start_reduce() {
  const at::NoGradGuard no_grad;
  ensure_unsharded_gradient();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!written_[i]) unsharded_view(unsharded_gradient_, i).zero_();
  }
  unsharded_gradient_.narrow(0, elements_, padded_ - elements_).zero_();
  const at::Tensor accumulated = unsharded_gradient_;
  unsharded_gradient_ = in_dtype(accumulated, dtypes_.reduce);
  if (!unsharded_gradient_.is_same(accumulated)) release_storage(accumulated);
  reduce_output_ =
      empty_flat(shard_.numel(), dtypes_.reduce, gathered_, MemoryCategory::ShardedGradient);
  reduce_ = comm::reduce_scatter(*groups_.shard, reduce_output_, unsharded_gradient_);
}

void FlatUnit::finish_reduce() {
  if (!reduce_) return;
  const at::NoGradGuard no_grad;
  reduce_->wait();
  reduce_.reset();
  release_storage(unsharded_gradient_);
  unsharded_gradient_.reset();
  std::int64_t ranks = groups_.shard->getSize();
  if (groups_.replicate) {
    std::vector<at::Tensor> sums{reduce_output_};
    groups_.replicate->allreduce(sums)->wait();
    // It may become the gradient, which goes with the optimizer's step and not when a thread of
    // gloo lets go of it.
    reduce_output_ = reclaim_storage(reduce_output_);
    ranks *= groups_.replicate->getSize();
  }
  reduce_output_.div_(ranks);
  add_to_shard_gradient(std::exchange(reduce_output_, at::Tensor()));
}

void FlatUnit::add_to_shard_gradient(at::Tensor mean) {
  const MemoryScope scope(MemoryCategory::ShardedGradient);
  at::Tensor& gradient = shard_.mutable_grad();
  if (gradient.defined()) {
    gradient.add_(mean);
    release_storage(mean);
  } else if (mean.scalar_type() == shard_.scalar_type()) {
    gradient = std::move(mean);
  } else {
    gradient = mean.to(shard_.scalar_type());
    release_storage(mean);
  }
}

}  // namespace gradsync::sync
