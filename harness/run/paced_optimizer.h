// The optimizer of a paced model: it takes the time of the machine re-enacted and does no
// arithmetic, since a scaled model's arithmetic would take neither machine's time.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "harness/base/clock.h"
#include "harness/sync/adamw.h"
#include "models/pace.h"

namespace gradsync::run {

class PacedOptimizer final : public sync::Optimizer {
 public:
  PacedOptimizer(std::vector<at::Tensor> parameters, double step_s,
                 std::shared_ptr<const models::Pace> pace)
      : parameters_(std::move(parameters)), step_s_(step_s), pace_(std::move(pace)) {}

  void step() override {
    if (step_s_ > 0) pace_->begin()->await(nanoseconds(step_s_));
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
  std::shared_ptr<const models::Pace> pace_;
};

}  // namespace gradsync::run
