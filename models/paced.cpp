#include "models/paced.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <ranges>

#include "harness/base/clock.h"

namespace gradsync::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What gradients are filled with: not zero, so that a lost reduction shows.
constexpr double kGradientValue = 1e-3;

// One layer: the identity on `activation`, with a wait in both directions. Its parameters are inputs
// only so that autograd asks for their gradients.
struct PacedLayer : torch::autograd::Function<PacedLayer> {
  static variable_list forward(AutogradContext* context, const variable_list& inputs,
                               std::int64_t forward_deadline_ns, double backward_until_s,
                               const std::shared_ptr<PacedModel::Pace>& pace) {
    pace->clock->sleep_until_ns(forward_deadline_ns);
    // The model, which owns `pace`, outlives its graphs.
    context->saved_data["pace"] = reinterpret_cast<std::int64_t>(pace.get());
    context->saved_data["until_s"] = backward_until_s;
    std::vector<at::Tensor> parameters(inputs.begin() + 1, inputs.end());
    context->save_for_backward(parameters);
    return {inputs[0].clone()};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    auto* pace = reinterpret_cast<PacedModel::Pace*>(context->saved_data["pace"].toInt());
    if (pace->backward_start_ns == 0) pace->backward_start_ns = pace->clock->now_ns();
    variable_list results{gradients[0]};
    for (const at::Tensor& parameter : context->get_saved_variables()) {
      results.push_back(at::full_like(parameter, kGradientValue));
    }
    const double until_s = context->saved_data["until_s"].toDouble();
    pace->clock->sleep_until_ns(pace->backward_start_ns + nanoseconds(until_s));
    return results;
  }
};

at::Tensor scaled(const ProfileTensor& tensor, int scale, const at::TensorOptions& options) {
  if (scale == 1) return at::zeros(tensor.shape, options);
  const std::int64_t elements = std::max<std::int64_t>(1, (tensor.elements() + scale / 2) / scale);
  return at::zeros({elements}, options);
}

// torch forbids dots in the names of parameters.
std::string flat_name(std::string name) {
  std::replace(name.begin(), name.end(), '.', '/');
  return name;
}

}  // namespace

PacedModel::PacedModel(const Profile& profile, int scale, const Clock& clock, at::Device device)
    : profile_(profile), pace_(std::make_shared<Pace>()) {
  pace_->clock = &clock;
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  double forward_s = 0;
  for (const ProfileLayer& profile_layer : profile_.layers) {
    Layer layer;
    layer.forward_until_s = forward_s += profile_layer.forward_s;
    for (const ProfileTensor& tensor : profile_layer.parameters) {
      layer.parameters.push_back(
          register_parameter(flat_name(tensor.name), scaled(tensor, scale, options)));
    }
    layers_.push_back(std::move(layer));
  }
  double backward_s = 0;
  for (std::size_t i = layers_.size(); i-- > 0;) {
    layers_[i].backward_until_s = backward_s += profile_.layers[i].backward_s;
  }
  for (const ProfileTensor& tensor : profile_.buffers) {
    register_buffer(flat_name(tensor.name), at::zeros(tensor.shape, options.dtype(at::kLong)));
  }
}

at::Tensor PacedModel::loss(const Batch&) {
  const std::int64_t start_ns = pace_->clock->now_ns();
  pace_->backward_start_ns = 0;
  at::Tensor activation = at::zeros({}, layers_.front().parameters.empty()
                                            ? at::TensorOptions().dtype(at::kFloat)
                                            : layers_.front().parameters.front().options());
  activation.requires_grad_(true);
  for (const Layer& layer : layers_) {
    variable_list inputs{activation};
    // The engine hands gradients to parameters in the order of inputs: last registered first.
    for (const at::Tensor& parameter : layer.parameters | std::views::reverse) {
      inputs.push_back(parameter);
    }
    activation = PacedLayer::apply(inputs, start_ns + nanoseconds(layer.forward_until_s),
                                   layer.backward_until_s, pace_)[0];
  }
  return activation;
}

}  // namespace gradsync::models
