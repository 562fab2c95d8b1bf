// Batch normalization over examples and pixels, channel by channel: parameters, buffers and
// arithmetic of torch.nn.BatchNorm2d with its defaults.
//
// In training a channel is normalized by the mean and variance of the micro-batch, and running
// averages of both are kept for evaluation. The micro-batch is this process's own, unless another
// normalization is set: a model knows nothing of other ranks.
// Source: Ioffe and Szegedy 2015 (arXiv:1502.03167); torch/nn/modules/batchnorm.py.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace gradsync::models {

// The running averages keep a share of 1 - momentum of their old values. Larger: they forget
// faster.
inline constexpr double kBatchNormMomentum = 0.1;
// Added to a variance, so that a channel that is constant can be divided by its root.
inline constexpr double kBatchNormEpsilon = 1e-5;

class BatchNorm2d : public torch::nn::Module {
 public:
  BatchNorm2d(std::int64_t channels, at::Device device);

  // Returns `input` normalized, scaled and shifted.   Shapes: both [examples, channels, rows,
  // columns]. Errors: ConfigError in training for a micro-batch with one value per channel.
  at::Tensor forward(const at::Tensor& input);

  // Returns forward's result in training, and track()s the statistics it used.
  using Normalization = std::function<at::Tensor(BatchNorm2d& layer, const at::Tensor& input)>;
  // Replaces this process's own normalization from now on; null: its own again.
  void set_training_normalization(Normalization normalization);

  // Moves the running averages towards a micro-batch's.   Shapes: both [channels].
  void track(const at::Tensor& mean, const at::Tensor& unbiased_variance);

  at::Tensor weight, bias;               // [channels]
  at::Tensor running_mean, running_var;  // [channels], buffers
  at::Tensor num_batches_tracked;        // int64 scalar, buffer

 private:
  at::Tensor normalize_alone(const at::Tensor& input) const;

  Normalization normalization_;
};

// Returns the layers of `module` in the order in which they were registered.
std::vector<std::shared_ptr<BatchNorm2d>> batch_norms_of(const torch::nn::Module& module);

}  // namespace gradsync::models
