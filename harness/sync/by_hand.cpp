#include "harness/sync/by_hand.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/utils/tensor_flatten.h>

#include <numeric>
#include <utility>

#include "harness/base/errors.h"
#include "harness/comm/storage.h"
#include "harness/measure/memory.h"
#include "harness/sync/parameters.h"

namespace gradsync::sync {

using measure::Phase;

ByHand::ByHand(std::shared_ptr<models::Model> module,
               c10::intrusive_ptr<c10d::ProcessGroup> process_group, Reduction reduction,
               measure::StepRecorder* recorder)
    : module_(std::move(module)),
      process_group_(std::move(process_group)),
      reduction_(reduction),
      recorder_(recorder) {
  for (const at::Tensor& parameter : module_->parameters()) {
    if (!parameter.requires_grad()) continue;
    parameters_.push_back(parameter);
    std::vector<at::Tensor> message{parameter.detach()};
    process_group_->broadcast(message)->wait();
  }
  if (parameters_.empty()) {
    throw ConfigError("data parallelism needs a model with a parameter that requires grad");
  }
  accumulators_ = label_parameter_memory(module_->parameters());
}

// The engine runs what is queued in backward once the whole graph is done.
at::Tensor ByHand::forward(const models::Batch& batch) {
  const measure::PhaseScope scope(recorder_, Phase::Forward);
  const measure::MemoryScope memory(measure::MemoryCategory::Activation);
  at::Tensor loss = module_->loss(batch);
  if (reduction_ != Reduction::None && loss.requires_grad()) {
    loss.register_hook([this](const at::Tensor&) {
      torch::autograd::Engine::get_default_engine().queue_callback([this] { after_backward(); });
    });
  }
  return loss;
}

void ByHand::after_backward() {
  if (!require_backward_grad_sync()) return;
  const at::NoGradGuard no_grad;
  const measure::MemoryScope memory(measure::MemoryCategory::Communication);
  enter(Phase::Backward);
  std::vector<at::Tensor> all = gradients();
  if (reduction_ == Reduction::Coalesced) {
    reduce_coalesced(all);
  } else {
    reduce_each(all);
  }
  at::_foreach_div_(all, static_cast<double>(process_group_->getSize()));
}

// One for each parameter: what a rank had no use for counts as zeros, so that every rank sends the
// same.
std::vector<at::Tensor> ByHand::gradients() {
  std::vector<at::Tensor> all;
  for (const at::Tensor& parameter : parameters_) {
    at::Tensor& gradient = parameter.mutable_grad();
    if (!gradient.defined()) gradient = at::zeros_like(parameter);
    all.push_back(gradient);
  }
  return all;
}

void ByHand::reduce_each(std::vector<at::Tensor>& gradients) {
  enter(Phase::Wait);
  for (const at::Tensor& gradient : gradients) all_reduce(gradient);
  enter(Phase::Backward);
}

void ByHand::reduce_coalesced(std::vector<at::Tensor>& gradients) {
  at::Tensor message = torch::utils::flatten_dense_tensors(gradients);
  if (gradients.size() == 1) message = message.clone();  // it is the gradient itself
  enter(Phase::Wait);
  all_reduce(message);
  enter(Phase::Backward);
  const auto sums = torch::utils::unflatten_dense_tensors(message, gradients);
  for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i].copy_(sums[i]);
  comm::release_storage(message);
}

void ByHand::all_reduce(const at::Tensor& tensor) {
  std::vector<at::Tensor> message{tensor};
  process_group_->allreduce(message)->wait();
}

void ByHand::enter(Phase phase) {
  if (recorder_ != nullptr) recorder_->enter(phase);
}

std::vector<std::string> ByHand::parameter_names() const {
  return trained_parameter_names(*module_);
}

std::vector<std::int64_t> ByHand::reduction_bytes() const {
  if (reduction_ == Reduction::None) return {};
  std::vector<std::int64_t> bytes;
  for (const at::Tensor& parameter : parameters_) {
    bytes.push_back(static_cast<std::int64_t>(parameter.nbytes()));
  }
  if (reduction_ == Reduction::PerParameter) return bytes;
  return {std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0})};
}

std::optional<std::int64_t> ByHand::gradient_bytes() const {
  if (reduction_ == Reduction::None) return std::nullopt;
  return trained_bytes(*module_);
}

std::vector<Collectives> ByHand::declared(const std::vector<bool>& syncs) const {
  if (reduction_ == Reduction::None) return std::vector<Collectives>(syncs.size());
  DdpTraffic traffic;
  traffic.bucket_bytes = reduction_bytes();
  return declared_collectives(traffic, syncs);
}

}  // namespace gradsync::sync
