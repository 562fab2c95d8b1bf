// AdamW in one fused pass over every parameter (at::_fused_adamw_), the same on float32 copies of
// parameters of fewer bits, the same parameter by parameter, and a linear warm-up schedule.
//
// torch::optim::AdamW walks the parameters one by one in C++ and takes twice as long; Python's
// default on the guide's machines is the fused or foreach form.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "harness/measure/step_recorder.h"

namespace gradsync::sync {

struct AdamWOptions {
  double lr = 2e-5;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
};

// The interface of optimizers.
class Optimizer {
 public:
  // `parameters` share storage with the model's.
  explicit Optimizer(std::vector<at::Tensor> parameters = {})
      : parameters_(std::move(parameters)) {}
  virtual ~Optimizer() = default;
  virtual void step() = 0;
  // Drops the gradients (as set_to_none=True, torch's default): also right when they are views of
  // the Reducer's buckets, which torch::optim::Optimizer::zero_grad is not.
  virtual void zero_grad() {
    for (const at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  }
  virtual double lr() const = 0;
  virtual void set_lr(double lr) = 0;

 protected:
  std::vector<at::Tensor> parameters_;
};

class FusedAdamW : public Optimizer {
 public:
  FusedAdamW(std::vector<at::Tensor> parameters, const AdamWOptions& options);

  void step() override;
  double lr() const override { return options_.lr; }
  void set_lr(double lr) override { options_.lr = lr; }

 private:
  std::vector<at::Tensor> exp_avg_;
  std::vector<at::Tensor> exp_avg_sq_;
  std::vector<at::Tensor> state_steps_;
  AdamWOptions options_;
};

// AdamW in float32 for parameters of fewer bits: each has a float32 copy, its master weight, which
// the step changes, with its gradient widened, and which the parameter is rounded from afterwards.
// So a step that is smaller than half of a parameter's last bit is not lost. Gradients are widened
// together, and freed after the step. Source: Micikevicius et al., Mixed Precision Training (2018),
// section 3.1.
class MasterWeightAdamW : public Optimizer {
 public:
  // `recorder`, which may be null, sees widening and rounding as phases of their own.
  MasterWeightAdamW(std::vector<at::Tensor> parameters, const AdamWOptions& options,
                    measure::StepRecorder* recorder = nullptr);

  void step() override;
  double lr() const override { return adamw_.lr(); }
  void set_lr(double lr) override { adamw_.set_lr(lr); }

 private:
  void widen_gradients();
  void round_parameters();

  std::vector<at::Tensor> masters_;
  measure::StepRecorder* recorder_;
  FusedAdamW adamw_;  // of the masters
};

// torch's own in C++. Its moments are made in the first step.
class PerParameterAdamW : public Optimizer {
 public:
  PerParameterAdamW(std::vector<at::Tensor> parameters, const AdamWOptions& options);
  ~PerParameterAdamW() override;

  void step() override;
  double lr() const override;
  void set_lr(double lr) override;

 private:
  struct Engine;  // torch::optim::AdamW, whose header is long
  std::unique_ptr<Engine> engine_;
};

// lr rises linearly over `warmup` scheduler steps, then falls linearly to zero at `total`.
// Source: transformers' get_linear_schedule_with_warmup.
class LinearWarmup {
 public:
  LinearWarmup(Optimizer& optimizer, std::int64_t warmup, std::int64_t total);
  void step();
  // Counts a step without changing the rate (Accelerate's adjust_scheduler on unsynced steps).
  void count_step() { ++counted_; }
  std::int64_t steps() const { return steps_; }
  std::int64_t counted() const { return counted_; }

 private:
  void apply();
  Optimizer& optimizer_;
  double base_lr_;
  std::int64_t warmup_;
  std::int64_t total_;
  std::int64_t steps_ = 0;
  std::int64_t counted_ = 1;  // torch's schedulers count their initial step
};

}  // namespace gradsync::sync
