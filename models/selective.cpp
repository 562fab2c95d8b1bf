#include "models/selective.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <utility>

#include "harness/base/errors.h"

namespace gradsync::models {
namespace {

// Below autograd, above all backends, and unused: torch has no kernels for it.
constexpr c10::DispatchKey kKey = c10::DispatchKey::Fake;
constexpr int kSecond = 2;

thread_local SelectiveScope* current = nullptr;
thread_local int* products_of_attention = nullptr;  // so many ran; null: it is not open

enum class Operation { Product, Attention };

bool is_kept(Operation operation) {
  if (operation == Operation::Attention) return true;
  const bool weighs_values =
      products_of_attention != nullptr && ++*products_of_attention == kSecond;
  return weighs_values || current->results().which() == KeptOutputs::Matmul;
}

void run_below(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard excluded(kKey);
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey), stack);
}

template <Operation operation>
void run_or_take(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                 torch::jit::Stack* stack) {
  if (current == nullptr || !is_kept(operation)) return run_below(op, keys, stack);
  if (current->run() == SelectiveScope::Run::Again) {
    torch::jit::drop(*stack, op.schema().arguments().size());
    for (c10::IValue& output : current->results().take()) stack->push_back(std::move(output));
    return;
  }
  run_below(op, keys, stack);
  const auto outputs = static_cast<std::ptrdiff_t>(op.schema().returns().size());
  current->results().keep({stack->end() - outputs, stack->end()});
}

TORCH_LIBRARY_IMPL(_, Fake, library) {
  library.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, Fake, library) {
  for (const char* name : {"mm", "addmm", "bmm", "baddbmm"}) {
    library.impl(name,
                 torch::CppFunction::makeFromBoxedFunction<&run_or_take<Operation::Product>>());
  }
  for (const char* name :
       {"_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention"}) {
    library.impl(name,
                 torch::CppFunction::makeFromBoxedFunction<&run_or_take<Operation::Attention>>());
  }
}

// Autograd makes the output itself a part of the graph, which would then own itself: another
// tensor of the same memory, which knows of changes in place.
at::Tensor beside(const at::Tensor& tensor) {
  c10::TensorImpl* const own = tensor.unsafeGetTensorImpl();
  return at::Tensor(own->shallow_copy_and_detach(own->version_counter(), false));
}

bool is_defined_tensor(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined();
}

std::int64_t version_of(const c10::IValue& value) {
  return is_defined_tensor(value) ? value.toTensor()._version() : 0;
}

}  // namespace

void KeptResults::keep(const std::vector<c10::IValue>& outputs) {
  std::vector<Output>& kept = kept_.emplace_back();
  for (const c10::IValue& output : outputs) {
    const c10::IValue own =
        is_defined_tensor(output) ? c10::IValue(beside(output.toTensor())) : output;
    kept.push_back({own, version_of(own)});
  }
}

std::vector<c10::IValue> KeptResults::take() {
  if (kept_.empty()) {
    throw ConfigError(
        "selective checkpointing: a unit that ran again has more operations than in forward");
  }
  std::vector<c10::IValue> outputs;
  for (Output& output : kept_.front()) {
    if (version_of(output.value) != output.version) {
      throw ConfigError(
          "selective checkpointing: a unit changed an output in place that it was to keep");
    }
    outputs.push_back(std::move(output.value));
  }
  kept_.pop_front();
  return outputs;
}

SelectiveScope::SelectiveScope(KeptResults& results, Run run)
    : results_(results),
      run_(run),
      outer_(std::exchange(current, this)),
      stepped_around_(results.which() == KeptOutputs::None ? c10::DispatchKeySet()
                                                           : c10::DispatchKeySet(kKey)) {}

SelectiveScope::~SelectiveScope() {
  current = outer_;
}

AttentionScope::AttentionScope() : outer_(std::exchange(products_of_attention, &products_)) {}

AttentionScope::~AttentionScope() {
  products_of_attention = outer_;
}

bool keeps_products() {
  return current != nullptr && current->results().which() == KeptOutputs::Matmul;
}

}  // namespace gradsync::models
