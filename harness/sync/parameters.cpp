#include "harness/sync/parameters.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>

#include "harness/measure/memory.h"

namespace gradsync::sync {

std::vector<std::string> trained_parameter_names(const models::Model& model) {
  std::vector<std::string> names;
  for (const auto& item : model.named_parameters()) {
    if (item.value().requires_grad()) names.push_back("parameter " + item.key());
  }
  return names;
}

std::int64_t trained_bytes(const models::Model& model) {
  std::int64_t bytes = 0;
  for (const at::Tensor& parameter : model.parameters()) {
    if (parameter.requires_grad()) bytes += static_cast<std::int64_t>(parameter.nbytes());
  }
  return bytes;
}

std::vector<models::NodePtr> label_parameter_memory(const std::vector<at::Tensor>& parameters) {
  using torch::autograd::variable_list;
  std::vector<models::NodePtr> accumulators;
  if (!measure::meter().installed()) return accumulators;
  for (const at::Tensor& parameter : parameters) {
    measure::relabel_memory(parameter.storage().data(), measure::MemoryCategory::ShardedParameter);
    if (!parameter.requires_grad()) continue;
    accumulators.push_back(torch::autograd::impl::grad_accumulator(parameter));
    accumulators.back()->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [parameter](const variable_list& outputs, const variable_list&) {
          if (const at::Tensor& gradient = parameter.grad(); gradient.defined()) {
            measure::relabel_memory(gradient.storage().data(),
                                    measure::MemoryCategory::UnshardedGradient,
                                    measure::MemoryCategory::Activation);
          }
          return outputs;
        }));
  }
  return accumulators;
}

}  // namespace gradsync::sync
