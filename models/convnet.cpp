#include "models/convnet.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "models/batch_norm.h"
#include "models/module_path.h"
#include "models/pictures.h"

namespace gradsync::models {
namespace {

constexpr std::array<std::int64_t, 4> kChannels{1, 32, 64, 128};
constexpr std::array<std::int64_t, 3> kStrides{1, 2, 2};
constexpr std::int64_t kKernel = 3;
// Halved twice, such a picture still has several pixels to normalize over.
constexpr std::int64_t kSmallestSide = 8;

at::Tensor drawn(at::IntArrayRef shape, double scale, at::Generator& generator) {
  return at::empty(shape).normal_(0, scale, generator);
}

// Returns [examples, 1, side, side], pixels from 0 to 1.
at::Tensor as_pictures(const at::Tensor& ids, at::ScalarType dtype) {
  const std::int64_t pixels = ids.size(1);
  const auto root = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(pixels))));
  const std::int64_t side = std::max(kSmallestSide, root);
  const at::Tensor levels = ids.to(dtype) / static_cast<double>(kPixelLevels - 1);
  return at::constant_pad_nd(levels, {0, side * side - pixels}).view({ids.size(0), 1, side, side});
}

}  // namespace

class ConvNet::Layer : public torch::nn::Module {
 public:
  Layer(std::size_t index, at::Generator& generator, at::Device device) : stride_(kStrides[index]) {
    const std::int64_t in = kChannels[index];
    const std::int64_t out = kChannels[index + 1];
    // He et al. 2015: keeps the variance through a relu.
    const double scale = std::sqrt(2.0 / static_cast<double>(in * kKernel * kKernel));
    weight_ = register_parameter("weight",
                                 drawn({out, in, kKernel, kKernel}, scale, generator).to(device));
    norm_ = register_module("norm", std::make_shared<BatchNorm2d>(out, device));
  }
  // Without a bias: the normalization would take it away again.
  at::Tensor operator()(const at::Tensor& input) const {
    const at::Tensor convolved = at::conv2d(input, weight_, {}, stride_, kKernel / 2);
    return at::relu(norm_->forward(convolved));
  }

 private:
  std::int64_t stride_;
  at::Tensor weight_;
  std::shared_ptr<BatchNorm2d> norm_;
};

// A module of its own, so that its parameters are registered behind the layers'.
struct ConvNet::Head : torch::nn::Module {
  Head(at::Generator& generator, at::Device device) {
    const auto classes = static_cast<std::int64_t>(kPictureClasses.size());
    const double scale = 1 / std::sqrt(static_cast<double>(kChannels.back()));
    weight = register_parameter("weight",
                                drawn({classes, kChannels.back()}, scale, generator).to(device));
    bias = register_parameter("bias", at::zeros({classes}).to(device));
  }
  at::Tensor weight;
  at::Tensor bias;
};

ConvNet::ConvNet(std::uint64_t seed, at::Device device) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (std::size_t i = 0; i < kStrides.size(); ++i) {
    layers_.push_back(
        register_module(fmt::format("layer{}", i), std::make_shared<Layer>(i, generator, device)));
  }
  head_ = register_module("head", std::make_shared<Head>(generator, device));
}

at::Tensor ConvNet::logits(const Batch& batch) {
  at::Tensor x = as_pictures(batch.input_ids, head_->weight.scalar_type());
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    x = run_unit(i, x, [this, i](const at::Tensor& input) { return (*layers_[i])(input); });
  }
  return at::linear(x.mean({2, 3}), head_->weight, head_->bias);
}

at::Tensor ConvNet::loss(const Batch& batch) {
  return at::cross_entropy_loss(logits(batch), batch.labels);
}

std::vector<Unit> ConvNet::units() const {
  std::vector<Unit> result;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const std::string name = fmt::format("layer{}", i);
    result.push_back({name, parameters_below(*this, name + ".")});
  }
  return result;
}

std::int64_t ConvNet::vocabulary_size() const {
  return kPixelLevels;
}

}  // namespace gradsync::models
