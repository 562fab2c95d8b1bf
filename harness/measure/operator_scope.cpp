#include "harness/measure/operator_scope.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>

namespace gradsync::measure {
namespace {

thread_local int depth = 0;
void (*hand_out)(const at::Tensor&) = nullptr;

// The engine of autograd and others name stretches of time that are no operators.
bool computes(const at::RecordFunction& called) {
  if (!called.operator_name()) return false;
  static constexpr std::array<std::string_view, 6> kNoKernels{
      "aten::empty",     "aten::empty_like",        "aten::empty_strided",
      "aten::new_empty", "aten::new_empty_strided", "aten::_backward"};
  return std::find(kNoKernels.begin(), kNoKernels.end(), called.name()) == kNoKernels.end();
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& called) {
  if (computes(called)) ++depth;
  return nullptr;
}

void on_end(const at::RecordFunction& called, at::ObserverContext*) {
  if (computes(called)) --depth;
  if (depth > 0) return;
  for (const c10::IValue& value : called.outputs()) {
    if (value.isTensor()) hand_out(value.toTensor());
    if (!value.isTensorList()) continue;
    for (const at::Tensor& tensor : value.toTensorVector()) hand_out(tensor);
  }
}

// The product that this thread is inside of.
struct Product {
  bool runs = false;
  bool has_result = false;
  int operators = 0;  // that it has called and that run: what they ask for is theirs
};
thread_local Product product;

// Those that make their result: a product's first allocation.
bool is_product(const at::RecordFunction& called) {
  const auto name = called.operator_name();
  if (!name || !name->overload_name.empty()) return false;
  static constexpr std::array<std::string_view, 3> kProducts{"aten::mm", "aten::addmm",
                                                             "aten::bmm"};
  return std::find(kProducts.begin(), kProducts.end(), name->name) != kProducts.end();
}

std::unique_ptr<at::ObserverContext> on_product_start(const at::RecordFunction& called) {
  if (product.runs) {
    ++product.operators;
  } else if (is_product(called)) {
    product = {.runs = true};
  }
  return nullptr;
}

void on_product_end(const at::RecordFunction&, at::ObserverContext*) {
  if (product.operators > 0) {
    --product.operators;
  } else {
    product.runs = false;
  }
}

}  // namespace

void observe_products() {
  at::addGlobalCallback(at::RecordFunctionCallback(&on_product_start, &on_product_end)
                            .scopes({at::RecordScope::FUNCTION}));
}

bool library_asks() {
  if (!product.runs || product.operators > 0) return false;
  return std::exchange(product.has_result, true);
}

void observe_operators(void (*on_output)(const at::Tensor& output)) {
  hand_out = on_output;
  at::addGlobalCallback(at::RecordFunctionCallback(&on_start, &on_end)
                            .needsOutputs(true)
                            .scopes({at::RecordScope::FUNCTION}));
}

bool inside_operator() {
  return depth > 0;
}

}  // namespace gradsync::measure
