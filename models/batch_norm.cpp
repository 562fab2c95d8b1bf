#include "models/batch_norm.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <utility>

#include "harness/base/errors.h"

namespace gradsync::models {

BatchNorm2d::BatchNorm2d(std::int64_t channels, at::Device device)
    : weight(register_parameter("weight", at::ones({channels}, device))),
      bias(register_parameter("bias", at::zeros({channels}, device))),
      running_mean(register_buffer("running_mean", at::zeros({channels}, device))),
      running_var(register_buffer("running_var", at::ones({channels}, device))),
      num_batches_tracked(register_buffer(
          "num_batches_tracked", at::zeros({}, at::TensorOptions(at::kLong).device(device)))) {}

at::Tensor BatchNorm2d::forward(const at::Tensor& input) {
  if (!is_training()) {
    return at::batch_norm(input, weight, bias, running_mean, running_var, /*training=*/false,
                          kBatchNormMomentum, kBatchNormEpsilon, /*cudnn_enabled=*/true);
  }
  num_batches_tracked.add_(1);
  return normalization_ ? normalization_(*this, input) : normalize_alone(input);
}

at::Tensor BatchNorm2d::normalize_alone(const at::Tensor& input) const {
  if (const std::int64_t values = input.numel() / input.size(1); values < 2) {
    throw ConfigError(
        fmt::format("batch normalization: got a micro-batch with {} value per channel, expected 2 "
                    "or more: one has no variance",
                    values));
  }
  return at::batch_norm(input, weight, bias, running_mean, running_var, /*training=*/true,
                        kBatchNormMomentum, kBatchNormEpsilon, /*cudnn_enabled=*/true);
}

void BatchNorm2d::set_training_normalization(Normalization normalization) {
  normalization_ = std::move(normalization);
}

void BatchNorm2d::track(const at::Tensor& mean, const at::Tensor& unbiased_variance) {
  const at::NoGradGuard no_grad;
  running_mean.lerp_(mean, kBatchNormMomentum);
  running_var.lerp_(unbiased_variance, kBatchNormMomentum);
}

std::vector<std::shared_ptr<BatchNorm2d>> batch_norms_of(const torch::nn::Module& module) {
  std::vector<std::shared_ptr<BatchNorm2d>> layers;
  for (const auto& part : module.modules(/*include_self=*/false)) {
    if (auto layer = std::dynamic_pointer_cast<BatchNorm2d>(part)) layers.push_back(layer);
  }
  return layers;
}

}  // namespace gradsync::models
