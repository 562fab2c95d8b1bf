#include "harness/measure/operator_scope.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

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

}  // namespace

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
