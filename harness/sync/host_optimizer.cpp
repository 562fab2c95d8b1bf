#include "harness/sync/host_optimizer.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "harness/measure/memory.h"

namespace gradsync::sync {

using measure::MemoryCategory;

namespace {

std::unique_ptr<Optimizer> made_on_host(std::vector<at::Tensor> parameters,
                                        const MakeOptimizer& make) {
  const measure::HostMemoryScope host;
  return make(std::move(parameters));
}

std::vector<at::Tensor> copied_to_host(const std::vector<at::Tensor>& parameters,
                                       const HostCopies& copies) {
  std::vector<at::Tensor> on_host;
  for (const at::Tensor& parameter : parameters) {
    on_host.push_back(copies.to_host(parameter, MemoryCategory::ShardedParameter));
    on_host.back().set_requires_grad(true);
  }
  return on_host;
}

}  // namespace

HostOptimizer::HostOptimizer(std::vector<at::Tensor> parameters, const MakeOptimizer& make)
    : optimizer_(made_on_host(std::move(parameters), make)) {}

void HostOptimizer::step() {
  const measure::HostMemoryScope host;
  optimizer_->step();
}

OffloadedOptimizer::OffloadedOptimizer(std::vector<at::Tensor> parameters, const HostCopies& copies,
                                       const MakeOptimizer& make)
    : Optimizer(std::move(parameters)),
      copies_(copies),
      on_host_(copied_to_host(parameters_, copies_)),
      optimizer_(on_host_, make) {}

void OffloadedOptimizer::step() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& gradient = parameters_[i].grad();
    if (!gradient.defined()) continue;
    on_host_[i].mutable_grad() = copies_.to_host(gradient, MemoryCategory::ShardedGradient);
  }
  optimizer_.step();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (on_host_[i].grad().defined()) copies_.copy(on_host_[i], parameters_[i]);
  }
  optimizer_.zero_grad();
}

}  // namespace gradsync::sync
