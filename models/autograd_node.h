// How torch holds a node of autograd's graph, which differs between its releases: by
// std::shared_ptr with a deleter of its own, or by c10::intrusive_ptr (2.15).
#pragma once

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

}  // namespace gradsync::models
