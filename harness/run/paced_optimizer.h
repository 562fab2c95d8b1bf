// The optimizer of a paced model: it takes the time of the machine re-enacted and does no
// arithmetic, since a scaled model's arithmetic would take neither machine's time.
#pragma once

#include <vector>

#include "harness/base/clock.h"
#include "harness/sync/adamw.h"

namespace gradsync::run {

class PacedOptimizer final : public sync::Optimizer {
 public:
  PacedOptimizer(std::vector<at::Tensor> parameters, double step_s, const Clock& clock)
      : parameters_(std::move(parameters)), step_s_(step_s), clock_(clock) {}

  void step() override {
    if (step_s_ > 0) clock_.sleep_until_ns(clock_.now_ns() + nanoseconds(step_s_));
  }
  void zero_grad() override {
    for (const at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  }
  double lr() const override { return lr_; }
  void set_lr(double lr) override { lr_ = lr; }

 private:
  std::vector<at::Tensor> parameters_;
  double step_s_;
  double lr_ = 0;
  const Clock& clock_;
};

}  // namespace gradsync::run
