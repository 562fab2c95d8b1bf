#include "harness/sync/fsdp/flat_unit.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
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

at::Tensor empty_flat(std::int64_t elements, at::ScalarType type, at::Device device,
                      MemoryCategory category) {
  const MemoryScope scope(category);
  return at::empty({elements}, at::TensorOptions(device).dtype(type));
}

std::int64_t bytes_of(std::int64_t elements, at::ScalarType type) {
  return elements * static_cast<std::int64_t>(c10::elementSize(type));
}

// The same tensor with a version counter of its own: what is written to it does not seem changed to
// autograd, which saved it.
at::Tensor alias_of(const at::Tensor& tensor) {
  return tensor.variable_data();
}

void zero_padding(const at::Tensor& flat, const memory::FlatLayout& layout) {
  for (const memory::Stretch& stretch : layout.padding) {
    flat.narrow(0, stretch.begin, stretch.length).zero_();
  }
}

}  // namespace

FlatUnit::FlatUnit(std::string name, std::vector<at::Tensor> parameters, const FsdpGroups& groups,
                   const UnitDtypes& dtypes, const Casts& casts,
                   const std::optional<HostCopies>& offload)
    : name_(std::move(name)),
      parameters_(std::move(parameters)),
      groups_(groups),
      dtypes_(dtypes),
      casts_(casts),
      offload_(offload),
      device_(parameters_.front().device()) {
  check_parameters();
  const auto first_frozen =
      std::ranges::stable_partition(parameters_, [](const at::Tensor& parameter) {
        return parameter.requires_grad();
      }).begin();
  const auto trained = static_cast<std::size_t>(first_frozen - parameters_.begin());
  trained_ = part_of(0, trained);
  frozen_ = part_of(trained, parameters_.size());

  const at::NoGradGuard no_grad;
  make_shards();
  const bool has_values = parameters_.front().storage().nbytes() > 0;
  for (Part* part : {&trained_, &frozen_}) {
    if (part->layout.padded == 0) continue;
    if (has_values) shard_values_of_rank_zero(*part);
    make_gathered(*part);
  }
  if (trained_.shard.defined()) trained_.shard.set_requires_grad(true);
}

void FlatUnit::check_parameters() const {
  std::int64_t elements = 0;
  for (const at::Tensor& parameter : parameters_) {
    elements += parameter.numel();
    if (parameter.scalar_type() != parameters_.front().scalar_type()) {
      throw ConfigError(
          fmt::format("fsdp: unit '{}' has parameters of {} and of {}, expected one "
                      "dtype",
                      name_, c10::toString(parameters_.front().scalar_type()),
                      c10::toString(parameter.scalar_type())));
    }
  }
  if (const std::int64_t ranks = groups_.shard->getSize(); elements < ranks) {
    throw ConfigError(
        fmt::format("fsdp: unit '{}' has {} elements, expected at least one for each "
                    "of the {} ranks that share it",
                    name_, elements, ranks));
  }
}

FlatUnit::Part FlatUnit::part_of(std::size_t first, std::size_t end) const {
  std::vector<std::int64_t> sizes;
  for (std::size_t i = first; i < end; ++i) sizes.push_back(parameters_[i].numel());
  Part part;
  part.first = first;
  part.layout = memory::flat_layout(sizes, bytes_of(1, dtypes_.param), groups_.shard->getSize());
  return part;
}

void FlatUnit::make_shards() {
  const std::int64_t ranks = groups_.shard->getSize();
  const std::int64_t trained = trained_.shard_elements(ranks);
  const std::int64_t frozen = frozen_.shard_elements(ranks);
  const at::ScalarType stored = parameters_.front().scalar_type();
  shards_ =
      offload_
          ? HostCopies::empty({trained + frozen}, stored, device_, MemoryCategory::ShardedParameter)
          : empty_flat(trained + frozen, stored, device_, MemoryCategory::ShardedParameter);
  if (trained > 0) trained_.shard = shards_.narrow(0, 0, trained);
  if (frozen > 0) frozen_.shard = shards_.narrow(0, trained, frozen);
}

void FlatUnit::shard_values_of_rank_zero(Part& part) {
  at::Tensor flat =
      empty_flat(part.layout.padded, shards_.scalar_type(), device_, MemoryCategory::Other);
  for (std::size_t i = 0; i < part.layout.offsets.size(); ++i) {
    view_in(flat, part, i).copy_(parameters_[part.first + i]);
  }
  zero_padding(flat, part.layout);
  std::vector<at::Tensor> from_rank_zero{flat};
  groups_.shard->broadcast(from_rank_zero)->wait();
  if (groups_.replicate) groups_.replicate->broadcast(from_rank_zero)->wait();

  const std::int64_t elements = part.shard.numel();
  part.shard.copy_(flat.narrow(0, groups_.shard->getRank() * elements, elements));
  release_storage(flat);
}

void FlatUnit::make_gathered(Part& part) {
  part.gathered =
      empty_flat(part.layout.padded, dtypes_.param, device_, MemoryCategory::GatheredParameter);
  for (std::size_t i = 0; i < part.layout.offsets.size(); ++i) {
    parameters_[part.first + i].set_data(view_in(part.gathered, part, i));
  }
  release_storage(part.gathered);
}

at::Tensor FlatUnit::view_in(const at::Tensor& flat, const Part& part, std::size_t i) const {
  const at::Tensor& parameter = parameters_[part.first + i];
  return flat.narrow(0, part.layout.offsets[i], parameter.numel()).view(parameter.sizes());
}

UnitTraffic FlatUnit::traffic() const {
  UnitTraffic traffic;
  traffic.gather_bytes = bytes_of(trained_.layout.padded + frozen_.layout.padded, dtypes_.param);
  traffic.reduce_bytes = bytes_of(trained_.layout.padded, dtypes_.reduce);
  if (groups_.replicate) {
    traffic.replicate_bytes = traffic.reduce_bytes / groups_.shard->getSize();
  }
  return traffic;
}

GradientSource FlatUnit::gradient_source() const {
  GradientSource source{
      shard(), trained_.layout.padded, groups_.shard->getRank() * shard().numel(), {}};
  for (std::size_t i = 0; i < trained(); ++i) {
    source.parts.push_back({parameters_[i], trained_.layout.offsets[i]});
  }
  return source;
}

at::Tensor FlatUnit::gather_input() const {
  const at::Tensor shards = shards_.detach();
  if (!offload_) return casts_.to(shards, dtypes_.param, MemoryCategory::Communication);
  const at::Tensor copy = offload_->to_device(shards, device_, MemoryCategory::Communication);
  at::Tensor input = casts_.to(copy, dtypes_.param, MemoryCategory::Communication);
  if (!input.is_same(copy)) release_storage(copy);
  return input;
}

void FlatUnit::start_gather() {
  if (is_gathered_ || gather_) return;
  const at::NoGradGuard no_grad;
  {
    const MemoryScope scope(MemoryCategory::GatheredParameter);
    for (const Part* part : {&trained_, &frozen_}) {
      if (part->gathered.defined()) refill_storage(part->gathered);
    }
  }
  gather_input_ = gather_input();
  at::Tensor output;
  if (has_both()) {
    gather_output_ = empty_flat(gather_input_.numel() * groups_.shard->getSize(), dtypes_.param,
                                device_, MemoryCategory::Communication);
    output = gather_output_;
  } else {
    output = alias_of(trained_.gathered.defined() ? trained_.gathered : frozen_.gathered);
  }
  const MemoryScope scope(MemoryCategory::Communication);
  gather_ = comm::all_gather(*groups_.shard, output, gather_input_);
}

void FlatUnit::finish_gather() {
  if (!gather_) return;
  gather_->wait();
  gather_.reset();
  if (gather_input_.data_ptr() != shards_.data_ptr()) release_storage(gather_input_);
  gather_input_.reset();
  if (has_both()) copy_out();
  is_gathered_ = true;
}

void FlatUnit::copy_out() {
  const at::NoGradGuard no_grad;
  const std::int64_t ranks = groups_.shard->getSize();
  const at::Tensor by_rank = gather_output_.view({ranks, -1});
  std::int64_t begin = 0;
  for (const Part* part : {&trained_, &frozen_}) {
    const std::int64_t elements = part->shard.numel();
    alias_of(part->gathered).view({ranks, elements}).copy_(by_rank.narrow(1, begin, elements));
    begin += elements;
  }
  release_storage(gather_output_);
  gather_output_.reset();
}

void FlatUnit::reshard() {
  finish_gather();  // gathered ahead, and then not needed
  if (!is_gathered_) return;
  for (const Part* part : {&trained_, &frozen_}) {
    if (part->gathered.defined()) release_storage(part->gathered);
  }
  is_gathered_ = false;
}

void FlatUnit::ensure_unsharded_gradient() {
  if (unsharded_gradient_.defined()) return;
  unsharded_gradient_ = empty_flat(trained_.layout.padded, dtypes_.gradient, device_,
                                   MemoryCategory::UnshardedGradient);
  written_.assign(trained(), false);
}

void FlatUnit::take_gradient(std::size_t i) {
  at::Tensor& gradient = parameters_[i].mutable_grad();
  if (!gradient.defined()) return;
  const at::NoGradGuard no_grad;
  ensure_unsharded_gradient();
  const at::Tensor part = view_in(unsharded_gradient_, trained_, i);
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
  if (trained() == 0) return;
  const at::NoGradGuard no_grad;
  ensure_unsharded_gradient();
  for (std::size_t i = 0; i < trained(); ++i) {
    if (!written_[i]) view_in(unsharded_gradient_, trained_, i).zero_();
  }
  zero_padding(unsharded_gradient_, trained_.layout);
  const at::Tensor accumulated = unsharded_gradient_;
  unsharded_gradient_ = casts_.to(accumulated, dtypes_.reduce, MemoryCategory::Communication);
  if (!unsharded_gradient_.is_same(accumulated)) release_storage(accumulated);
  reduce_output_ =
      empty_flat(shard().numel(), dtypes_.reduce, device_, MemoryCategory::ShardedGradient);
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

// As fully_shard: cast on the device, then copied.
at::Tensor FlatUnit::on_host(const at::Tensor& mean) const {
  const at::Tensor stored = casts_.to(mean, shard().scalar_type(), MemoryCategory::ShardedGradient);
  if (!stored.is_same(mean)) release_storage(mean);
  at::Tensor copy = offload_->to_host(stored, MemoryCategory::ShardedGradient);
  release_storage(stored);
  return copy;
}

void FlatUnit::add_to_shard_gradient(at::Tensor mean) {
  if (offload_) mean = on_host(mean);
  const MemoryScope scope(MemoryCategory::ShardedGradient);
  at::Tensor& gradient = trained_.shard.mutable_grad();
  if (gradient.defined()) {
    gradient.add_(mean);
    release_storage(mean);
  } else if (mean.scalar_type() == shard().scalar_type()) {
    gradient = std::move(mean);
  } else {
    gradient = casts_.to(mean, shard().scalar_type(), MemoryCategory::ShardedGradient);
    release_storage(mean);
  }
}

}  // namespace gradsync::sync
