#include "harness/run/parameter_distance.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>

#include <cmath>
#include <vector>

namespace gradsync::run {
namespace {

void broadcast(const at::Tensor& tensor, c10d::ProcessGroup& group) {
  std::vector<at::Tensor> message{tensor};
  group.broadcast(message)->wait();
}

double squared_norm(const at::Tensor& values) {
  const auto norm = at::linalg_vector_norm(values.to(at::kDouble), 2).item<double>();
  return norm * norm;
}

}  // namespace

void start_alike(const sync::Wrapper& model, c10d::ProcessGroup& group) {
  for (const at::Tensor& parameter : model.parameters()) broadcast(parameter.detach(), group);
}

double parameter_distance(const sync::Wrapper& model, c10d::ProcessGroup& group) {
  const at::NoGradGuard no_grad;
  double apart = 0;
  double whole = 0;
  for (const at::Tensor& parameter : model.parameters()) {
    const at::Tensor first_ranks = parameter.detach().clone();
    broadcast(first_ranks, group);
    apart += squared_norm(parameter.detach() - first_ranks);
    whole += squared_norm(first_ranks);
  }
  return apart == 0 ? 0 : std::sqrt(apart / whole);
}

}  // namespace gradsync::run
