#include "harness/run/trained_parameters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <vector>

#include "harness/base/errors.h"
#include "harness/run/expectation.h"

namespace gradsync::run {

std::string non_finite_values(const sync::Wrapper& model, std::optional<int> first_loss,
                              const std::vector<int>& warmup, const std::vector<int>& windows) {
  std::vector<std::string> found;
  const auto names = model.parameter_names();
  GRADSYNC_CHECK(names.size(), ==, model.parameters().size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const at::Tensor values = model.parameters()[i].detach();
    if (values.numel() == 0) continue;
    // The largest of them; NaN where one is NaN.
    const at::Tensor largest =
        at::linalg_vector_norm(values, std::numeric_limits<double>::infinity());
    if (!std::isfinite(largest.item<double>())) found.push_back(names[i]);
  }
  if (found.empty()) return "";
  std::string sentence = "non-finite gradients: after the block " + found.front();
  if (found.size() > 1) sentence += fmt::format(" and {} more", found.size() - 1);
  sentence += found.size() > 1 ? " are not finite" : " is not finite";
  if (first_loss) {
    sentence += "; the first loss that was not is that of " +
                place_of_backward(*first_loss, warmup, windows);
  }
  return sentence;
}

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
