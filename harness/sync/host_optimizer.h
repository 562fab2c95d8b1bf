// An optimizer that steps on the host, whose moments are there.
//
//   device   parameters            gradients                 parameters
//                                      | copied                  ^ copied
//   host     copy, moments         gradients  ->  step  ->     copy
//
// What is copied is each step's: all gradients of the step are on the host at once, and go when it
// has stepped. Source: DeepSpeed's offload_optimizer and torchao's CPUOffloadOptimizer, which keep
// the same and overlap the copies.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "harness/sync/adamw.h"
#include "harness/sync/copies.h"

namespace gradsync::sync {

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(std::vector<at::Tensor>)>;

// Steps parameters that are already on the host, as those of FSDP with offloading are.
class HostOptimizer final : public Optimizer {
 public:
  HostOptimizer(std::vector<at::Tensor> parameters, const MakeOptimizer& make);

  void step() override;
  void zero_grad() override { optimizer_->zero_grad(); }
  double lr() const override { return optimizer_->lr(); }
  void set_lr(double lr) override { optimizer_->set_lr(lr); }

 private:
  std::unique_ptr<Optimizer> optimizer_;
};

// Steps parameters on the device. From now on no other code may write to them.
class OffloadedOptimizer final : public Optimizer {
 public:
  OffloadedOptimizer(std::vector<at::Tensor> parameters, const HostCopies& copies,
                     const MakeOptimizer& make);

  void step() override;
  double lr() const override { return optimizer_.lr(); }
  void set_lr(double lr) override { optimizer_.set_lr(lr); }

 private:
  HostCopies copies_;
  std::vector<at::Tensor> on_host_;  // their copies, in the same order
  HostOptimizer optimizer_;
};

}  // namespace gradsync::sync
