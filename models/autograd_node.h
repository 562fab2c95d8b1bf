// What autograd's graph holds: its nodes, and what a node of ours keeps for its backward.
//
// How torch holds a node differs between its releases: by std::shared_ptr with a deleter of its
// own, or by c10::intrusive_ptr (2.15).
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <type_traits>
#include <utility>

namespace gradsync::models {

using NodePtr = decltype(torch::autograd::Edge::function);

// Returns a new T, derived from torch::autograd::Node.
template <typename T, typename... Arguments>
NodePtr make_node(Arguments&&... arguments) {
  if constexpr (std::is_same_v<NodePtr, std::shared_ptr<torch::autograd::Node>>) {
    // Found by the argument's type: only where there is such a function is it looked for.
    const auto give_back = [](auto* node) { deleteNode(node); };
    return NodePtr(new T(std::forward<Arguments>(arguments)...), give_back);
  } else {
    return c10::make_intrusive<T>(std::forward<Arguments>(arguments)...);
  }
}

template <typename T>
struct KeptPointer : torch::CustomClassHolder {
  explicit KeptPointer(T* kept) : pointer(kept) {}
  T* pointer;
};

// Returns the pointer, which may be null and is not owned, as a context's saved_data takes it.
template <typename T>
c10::IValue keep_pointer(T* pointer) {
  return c10::IValue::make_capsule(c10::make_intrusive<KeptPointer<T>>(pointer));
}

// The inverse, of the same T.
template <typename T>
T* kept_pointer(const c10::IValue& kept) {
  return static_cast<const KeptPointer<T>&>(*kept.toCapsule()).pointer;
}

}  // namespace gradsync::models
