#include "models/paced.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>

#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "models/module_path.h"

namespace gradsync::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Layers = std::shared_ptr<std::vector<PacedModel::Layer>>;

// One forward and its backward. A scalar, the signal, runs through all layers and ties them into a
// graph; what comes back along it is the gradient of the loss.
struct Pass : torch::CustomClassHolder {
  Pass(Layers the_layers, const Clock& the_clock)
      : layers(std::move(the_layers)), clock(the_clock), forward_start_ns(clock.now_ns()) {}

  // Makes the gradients of layer `index`, so that they are there when its wait is over.
  void prepare(std::size_t index, const at::Tensor& signal) {
    const PacedModel::Layer& layer = (*layers)[index];
    prepared.clear();
    for (std::size_t i = 0; i < layer.parameters.size(); ++i) {
      const double value = PacedModel::gradient_value(layer.first_parameter + i);
      prepared.push_back((signal * value).expand_as(layer.parameters[i]).contiguous());
    }
  }

  const Layers layers;
  const Clock& clock;
  const std::int64_t forward_start_ns;
  std::int64_t backward_start_ns = 0;
  variable_list due;       // gradients of the layer whose backward is over
  variable_list prepared;  // of the one after it
};
using PassPtr = c10::intrusive_ptr<Pass>;

void save(AutogradContext* context, const PassPtr& pass, std::size_t index) {
  context->saved_data["pass"] = at::IValue::make_capsule(pass);
  context->saved_data["index"] = static_cast<std::int64_t>(index);
}
PassPtr pass_of(AutogradContext* context) {
  return c10::static_intrusive_pointer_cast<Pass>(context->saved_data["pass"].toCapsule());
}
std::size_t index_of(AutogradContext* context) {
  return static_cast<std::size_t>(context->saved_data["index"].toInt());
}

// Hands parameter `index` of its layer its gradient. One node per parameter, because autograd runs
// nodes in the reverse of their order, but one node's gradients in none.
struct GiveGradient : torch::autograd::Function<GiveGradient> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& signal,
                            const at::Tensor& /*parameter*/, const PassPtr& pass,
                            std::size_t index) {
    save(context, pass, index);
    return signal.clone();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    // Moved out: autograd keeps a gradient that nobody else holds, and copies any other.
    return {gradients[0], std::move(pass_of(context)->due[index_of(context)]), {}, {}};
  }
};

// Waits for the end of layer `index`, forward and backward.
struct AwaitLayer : torch::autograd::Function<AwaitLayer> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& signal, const PassPtr& pass,
                            std::size_t index) {
    save(context, pass, index);
    at::Tensor out = signal.clone();
    pass->clock.sleep_until_ns(pass->forward_start_ns + (*pass->layers)[index].forward_until_ns);
    return out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const PassPtr pass = pass_of(context);
    const std::size_t index = index_of(context);
    pass->due = std::exchange(pass->prepared, {});
    // The next layer's too: where it takes no time, there is no wait to hide them in.
    if (index > 0) pass->prepare(index - 1, gradients[0]);
    pass->clock.sleep_until_ns(pass->backward_start_ns + (*pass->layers)[index].backward_until_ns);
    return {gradients[0], {}, {}};
  }
};

// The loss: its backward is the first to run.
struct StartBackward : torch::autograd::Function<StartBackward> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& signal,
                            const PassPtr& pass) {
    save(context, pass, pass->layers->size() - 1);
    return signal.clone();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const PassPtr pass = pass_of(context);
    pass->backward_start_ns = pass->clock.now_ns();
    pass->prepare(index_of(context), gradients[0]);
    return {gradients[0], {}};
  }
};

at::Tensor zeros_for(const ProfileTensor& tensor, int scale, at::ScalarType type) {
  if (scale == 1) return at::zeros(tensor.shape, type);
  const std::int64_t elements = (2 * tensor.elements() + scale) / (2 * std::int64_t{scale});
  return at::zeros({std::max<std::int64_t>(1, elements)}, type);
}

}  // namespace

double PacedModel::gradient_value(std::size_t parameter) {
  constexpr std::size_t kPeriod = 7;
  constexpr double kUnit = 0x1p-10;  // a power of two: sums and means of a few are exact
  return kUnit * static_cast<double>(1 + parameter % kPeriod);
}

PacedModel::PacedModel(const Profile& profile, int scale, const Clock& clock, at::Device device)
    : layers_(std::make_shared<std::vector<Layer>>(profile.layers.size())),
      optimizer_s_(profile.optimizer_s),
      options_(at::TensorOptions().dtype(at::kFloat).device(device)),
      clock_(clock) {
  register_tensors(profile, scale);
  refuse_other_order(profile);
  set_deadlines(profile);
  to(device);
}

void PacedModel::register_tensors(const Profile& profile, int scale) {
  std::size_t index = 0;
  for (std::size_t i = 0; i < profile.layers.size(); ++i) {
    Layer& layer = (*layers_)[i];
    layer.first_parameter = index;
    for (const ProfileTensor& tensor : profile.layers[i].parameters) {
      const auto [owner, name] = module_path(*this, tensor.name);
      layer.parameters.push_back(
          owner.register_parameter(name, zeros_for(tensor, scale, at::kFloat)));
      ++index;
    }
  }
  for (const ProfileTensor& tensor : profile.buffers) {
    const auto [owner, name] = module_path(*this, tensor.name);
    owner.register_buffer(name, zeros_for(tensor, scale, at::kLong));
  }
}

void PacedModel::set_deadlines(const Profile& profile) {
  double forward_s = 0;
  double backward_s = 0;
  for (std::size_t i = 0; i < layers_->size(); ++i) {
    const std::size_t from_end = layers_->size() - 1 - i;
    forward_s += profile.layers[i].forward_s;
    backward_s += profile.layers[from_end].backward_s;
    (*layers_)[i].forward_until_ns = nanoseconds(forward_s);
    (*layers_)[from_end].backward_until_ns = nanoseconds(backward_s);
  }
}

// DDP's buckets follow the order of parameters(), which must be the profile's.
void PacedModel::refuse_other_order(const Profile& profile) const {
  const auto actual = named_parameters();
  std::size_t index = 0;
  for (const ProfileLayer& layer : profile.layers) {
    for (const ProfileTensor& tensor : layer.parameters) {
      const std::string& name = actual[index++].key();
      if (name == tensor.name) continue;
      throw ConfigError("profile " + profile.name, "layers", tensor.name + " before " + name,
                        "a module's parameters together, its own before those of its parts");
    }
  }
}

at::Tensor PacedModel::loss(const Batch& /*batch*/) {
  const auto pass = c10::make_intrusive<Pass>(layers_, clock_);
  // Requires a gradient even where the first layer has no parameter that does.
  at::Tensor signal = at::zeros({}, options_).requires_grad_();
  for (std::size_t i = 0; i < layers_->size(); ++i) {
    const std::vector<at::Tensor>& parameters = (*layers_)[i].parameters;
    // Before the wait, which hides this, and so that backward, in reverse, waits first.
    for (std::size_t k = 0; k < parameters.size(); ++k) {
      signal = GiveGradient::apply(signal, parameters[k], pass, k);
    }
    signal = AwaitLayer::apply(signal, pass, i);
  }
  return StartBackward::apply(signal, pass);
}

}  // namespace gradsync::models
