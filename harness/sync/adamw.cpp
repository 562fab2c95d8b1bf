#include "harness/sync/adamw.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "harness/measure/memory.h"

namespace gradsync::sync {
namespace {

std::vector<at::Tensor> in_float32(const std::vector<at::Tensor>& parameters) {
  const measure::MemoryScope memory(measure::MemoryCategory::OptimizerState);
  std::vector<at::Tensor> copies;
  for (const at::Tensor& parameter : parameters) {
    copies.push_back(parameter.detach().to(at::kFloat, /*non_blocking=*/false, /*copy=*/true));
  }
  return copies;
}

torch::optim::AdamWOptions torch_options(const AdamWOptions& options) {
  return torch::optim::AdamWOptions(options.lr)
      .betas(std::make_tuple(options.beta1, options.beta2))
      .eps(options.eps)
      .weight_decay(options.weight_decay);
}

}  // namespace

FusedAdamW::FusedAdamW(std::vector<at::Tensor> parameters, const AdamWOptions& options)
    : Optimizer(std::move(parameters)), options_(options) {
  const measure::MemoryScope memory(measure::MemoryCategory::OptimizerState);
  for (const at::Tensor& parameter : parameters_) {
    exp_avg_.push_back(at::zeros_like(parameter));
    exp_avg_sq_.push_back(at::zeros_like(parameter));
    state_steps_.push_back(at::zeros({}, parameter.options().dtype(at::kFloat)));
  }
}

void FusedAdamW::step() {
  const at::NoGradGuard no_grad;
  const measure::MemoryScope memory(measure::MemoryCategory::OptimizerState);
  std::vector<at::Tensor> parameters, gradients, exp_avg, exp_avg_sq, state_steps;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].grad().defined()) continue;
    parameters.push_back(parameters_[i]);
    gradients.push_back(parameters_[i].grad());
    exp_avg.push_back(exp_avg_[i]);
    exp_avg_sq.push_back(exp_avg_sq_[i]);
    state_steps.push_back(state_steps_[i]);
  }
  if (parameters.empty()) return;
  at::_foreach_add_(state_steps, 1);
  at::_fused_adamw_(parameters, gradients, exp_avg, exp_avg_sq, /*max_exp_avg_sqs=*/{}, state_steps,
                    options_.lr, options_.beta1, options_.beta2, options_.weight_decay,
                    options_.eps, /*amsgrad=*/false, /*maximize=*/false);
}

MasterWeightAdamW::MasterWeightAdamW(std::vector<at::Tensor> parameters,
                                     const AdamWOptions& options, measure::StepRecorder* recorder)
    : Optimizer(std::move(parameters)),
      masters_(in_float32(parameters_)),
      recorder_(recorder),
      adamw_(masters_, options) {}

void MasterWeightAdamW::step() {
  const at::NoGradGuard no_grad;
  const measure::MemoryScope memory(measure::MemoryCategory::OptimizerState);
  widen_gradients();
  adamw_.step();
  round_parameters();
  adamw_.zero_grad();
}

void MasterWeightAdamW::widen_gradients() {
  const measure::InnerPhaseScope phase(recorder_, measure::Phase::Cast);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& gradient = parameters_[i].grad();
    if (gradient.defined()) masters_[i].mutable_grad() = gradient.to(at::kFloat);
  }
}

void MasterWeightAdamW::round_parameters() {
  const measure::InnerPhaseScope phase(recorder_, measure::Phase::Cast);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (masters_[i].grad().defined()) parameters_[i].copy_(masters_[i]);
  }
}

struct PerParameterAdamW::Engine {
  torch::optim::AdamW adamw;
  torch::optim::OptimizerOptions& options() { return adamw.param_groups().front().options(); }
};

PerParameterAdamW::PerParameterAdamW(std::vector<at::Tensor> parameters,
                                     const AdamWOptions& options)
    : Optimizer(std::move(parameters)),
      engine_(new Engine{torch::optim::AdamW(parameters_, torch_options(options))}) {}

PerParameterAdamW::~PerParameterAdamW() = default;

void PerParameterAdamW::step() {
  const measure::MemoryScope memory(measure::MemoryCategory::OptimizerState);
  engine_->adamw.step();
}

double PerParameterAdamW::lr() const {
  return engine_->options().get_lr();
}

void PerParameterAdamW::set_lr(double lr) {
  engine_->options().set_lr(lr);
}

LinearWarmup::LinearWarmup(Optimizer& optimizer, std::int64_t warmup, std::int64_t total)
    : optimizer_(optimizer), base_lr_(optimizer.lr()), warmup_(warmup), total_(total) {
  apply();
}

void LinearWarmup::step() {
  ++steps_;
  ++counted_;
  apply();
}

void LinearWarmup::apply() {
  const double factor =
      steps_ < warmup_
          ? static_cast<double>(steps_) / static_cast<double>(std::max<std::int64_t>(1, warmup_))
          : std::max(0.0, static_cast<double>(total_ - steps_) /
                              static_cast<double>(std::max<std::int64_t>(1, total_ - warmup_)));
  optimizer_.set_lr(base_lr_ * factor);
}

}  // namespace gradsync::sync
