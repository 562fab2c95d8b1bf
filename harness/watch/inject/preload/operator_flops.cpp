#include "harness/watch/inject/preload/operator_flops.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

namespace gradsync::watch {
namespace {

using Inputs = OperatorInputs;

constexpr int kPerProduct = 2;  // a multiplication and an addition

const at::Tensor& tensor(Inputs inputs, std::size_t index) {
  return inputs.at(index).toTensor();
}

// The product of the sizes from dimension 2 on.
std::int64_t pixels(const at::Tensor& tensor) {
  std::int64_t product = 1;
  for (std::int64_t i = 2; i < tensor.dim(); ++i) product *= tensor.size(i);
  return product;
}

// Returns the operations of a product of two matrices, or of two batches of matrices.
template <std::size_t first>
std::int64_t of_product(Inputs inputs) {
  return kPerProduct * tensor(inputs, first).numel() * tensor(inputs, first + 1).size(-1);
}

std::int64_t at_or_last(const std::vector<std::int64_t>& values, std::int64_t index) {
  return values.at(std::min(static_cast<std::size_t>(index), values.size() - 1));
}

// How many places a convolution's filter is put to in an image.
std::int64_t places(Inputs inputs) {
  const at::Tensor& image = tensor(inputs, 0);
  const at::Tensor& filter = tensor(inputs, 1);
  const auto stride = inputs.at(3).toIntVector();
  const auto padding = inputs.at(4).toIntVector();
  const auto dilation = inputs.at(5).toIntVector();
  std::int64_t product = 1;
  for (std::int64_t i = 0; i + 2 < image.dim(); ++i) {
    const std::int64_t reach = at_or_last(dilation, i) * (filter.size(i + 2) - 1) + 1;
    const std::int64_t room = image.size(i + 2) + 2 * at_or_last(padding, i) - reach;
    product *= room / at_or_last(stride, i) + 1;
  }
  return product;
}

std::int64_t of_convolution(Inputs inputs) {
  const at::Tensor& image = tensor(inputs, 0);
  const bool is_transposed = inputs.at(6).toBool();
  return kPerProduct * image.size(0) * tensor(inputs, 1).numel() *
         (is_transposed ? pixels(image) : places(inputs));
}

std::int64_t of_convolution_backward(Inputs inputs) {
  const at::Tensor& gradient = tensor(inputs, 0);
  const at::Tensor& image = tensor(inputs, 1);
  const at::Tensor& filter = tensor(inputs, 2);
  const bool is_transposed = inputs.at(7).toBool();
  const auto wanted = inputs.at(10).toBoolList();
  const at::Tensor& wide = is_transposed ? gradient : image;
  const at::Tensor& narrow = is_transposed ? image : gradient;
  std::int64_t flops = 0;
  if (wanted.get(0)) flops += gradient.size(0) * pixels(narrow) * filter.numel();
  if (wanted.get(1)) flops += wide.size(1) * pixels(filter) * narrow.numel();
  return kPerProduct * flops;
}

// Query, key and value from input `first` on. Masks are not taken into account.
template <std::size_t first, int by_keys, int by_values>
std::int64_t of_attention(Inputs inputs) {
  const at::Tensor& query = tensor(inputs, first);
  const at::Tensor& value = tensor(inputs, first + 2);
  const std::int64_t scores = query.numel() / query.size(-1) * value.size(-2);
  return kPerProduct * scores * (by_keys * query.size(-1) + by_values * value.size(-1));
}

struct Formula {
  std::string_view name;
  FlopFormula flops;
};

constexpr FlopFormula kAttention = of_attention<0, 1, 1>;
constexpr FlopFormula kAttentionBackward = of_attention<1, 3, 2>;

constexpr Formula kFormulas[] = {
    {"aten::mm", of_product<0>},
    {"aten::addmm", of_product<1>},
    {"aten::bmm", of_product<0>},
    {"aten::baddbmm", of_product<1>},
    {"aten::convolution", of_convolution},
    {"aten::convolution_backward", of_convolution_backward},
    {"aten::_scaled_dot_product_flash_attention", kAttention},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", kAttention},
    {"aten::_scaled_dot_product_efficient_attention", kAttention},
    {"aten::_scaled_dot_product_cudnn_attention", kAttention},
    {"aten::_scaled_dot_product_flash_attention_backward", kAttentionBackward},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", kAttentionBackward},
    {"aten::_scaled_dot_product_efficient_attention_backward", kAttentionBackward},
    {"aten::_scaled_dot_product_cudnn_attention_backward", kAttentionBackward},
};

}  // namespace

FlopFormula flop_formula(std::string_view name) {
  for (const Formula& formula : kFormulas) {
    if (formula.name == name) return formula.flops;
  }
  return nullptr;
}

}  // namespace gradsync::watch
