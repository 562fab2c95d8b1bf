#include "models/mlp.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <cmath>

#include "models/footprints.h"
#include "models/module_path.h"

namespace gradsync::models {
Mlp::Mlp(std::uint64_t seed, at::Device device) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (std::size_t i = 0; i + 1 < kMlpWidths.size(); ++i) {
    const double scale = 1 / std::sqrt(static_cast<double>(kMlpWidths[i]));
    at::Tensor weight = at::empty({kMlpWidths[i + 1], kMlpWidths[i]});
    weight.normal_(0, scale, generator);
    weights_.push_back(register_parameter(fmt::format("layer{}_weight", i), weight.to(device)));
    biases_.push_back(register_parameter(fmt::format("layer{}_bias", i),
                                         at::zeros({kMlpWidths[i + 1]}).to(device)));
  }
}

at::Tensor Mlp::loss(const Batch& batch) {
  at::Tensor x = run_begin([&] {
    // Each token adds to one of 64 features, so that any sequence length fits.
    const at::Tensor ids = batch.input_ids % kMlpWidths[0];
    return token_counts(ids, kMlpWidths[0], weights_[0].options());
  });
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    x = run_unit(i, x, [this, i](const at::Tensor& input) {
      const at::Tensor output = at::linear(input, weights_[i], biases_[i]);
      return i + 1 < weights_.size() ? at::relu(output) : output;
    });
  }
  return run_end(
      x, [&](const at::Tensor& logits) { return at::cross_entropy_loss(logits, batch.labels); });
}

std::vector<Unit> Mlp::units() const {
  std::vector<Unit> result;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const std::string name = fmt::format("layer{}", i);
    result.push_back({name, parameters_below(*this, name + "_")});
  }
  return result;
}

std::optional<std::vector<std::int64_t>> Mlp::unit_output_shape(std::size_t unit,
                                                                const Batch& batch) const {
  return std::vector<std::int64_t>{batch.input_ids.size(0), kMlpWidths.at(unit + 1)};
}

std::int64_t Mlp::vocabulary_size() const {
  return kMlpVocabulary;
}

}  // namespace gradsync::models
