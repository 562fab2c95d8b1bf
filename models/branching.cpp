#include "models/branching.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

#include "models/mlp.h"

namespace gradsync::models {
namespace {

constexpr std::int64_t kVocabulary = 1000;
constexpr std::int64_t kFeatures = 64;
constexpr std::int64_t kWidth = 512;
constexpr std::int64_t kClasses = 2;

}  // namespace

Branching::Branching(UntakenBranch untaken, std::uint64_t seed, at::Device device)
    : untaken_(untaken) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  trunk_ = make_layer("trunk", kFeatures, kWidth, generator, device);
  left_ = make_layer("left", kWidth, kWidth, generator, device);
  right_ = make_layer("right", kWidth, kWidth, generator, device);
  head_ = make_layer("head", kWidth, kClasses, generator, device);
}

Branching::Layer Branching::make_layer(const std::string& name, std::int64_t inputs,
                                       std::int64_t outputs, at::Generator& generator,
                                       at::Device device) {
  at::Tensor weight = at::empty({outputs, inputs});
  weight.normal_(0, 1 / std::sqrt(static_cast<double>(inputs)), generator);
  return {register_parameter(name + "_weight", weight.to(device)),
          register_parameter(name + "_bias", at::zeros({outputs}).to(device))};
}

at::Tensor Branching::loss(const Batch& batch) {
  const auto through = [](const Layer& layer, const at::Tensor& input) {
    return at::linear(input, layer.weight, layer.bias);
  };
  const at::Tensor counts =
      token_counts(batch.input_ids % kFeatures, kFeatures, trunk_.weight.options());
  const at::Tensor hidden = at::relu(through(trunk_, counts));
  const bool left = takes_left(batch);
  at::Tensor output = at::relu(through(left ? left_ : right_, hidden));
  if (untaken_ == UntakenBranch::TimesZero) {
    output = output + at::relu(through(left ? right_ : left_, hidden)) * 0;
  }
  return at::cross_entropy_loss(through(head_, output), batch.labels);
}

std::int64_t Branching::vocabulary_size() const {
  return kVocabulary;
}

bool takes_left(const Batch& batch) {
  return batch.input_ids[0][0].item<std::int64_t>() % 2 == 0;
}

}  // namespace gradsync::models
