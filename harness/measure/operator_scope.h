// Knows whether this thread is inside of an operator, and which tensors the operator returns.
//
// A kernel asks the tensors' allocator for room of its own: workspaces, indices, and the
// scratchpads of oneDNN, some of whose generated code keeps pointers there. Code outside must not
// touch that room before the operator ends. The operator's outputs belong to its caller.
//
// An operator is a call through PyTorch's dispatcher; those that it calls itself are part of it.
// Calls in which no kernel computes do not count as operators: at::empty and its like, which only
// allocate, and the backward of a whole graph, each of whose nodes calls operators of its own. A
// matrix product may leave its arithmetic to a library. MKL computes products in float32, and asks
// the system for its scratch memory. oneDNN computes products in bfloat16 if the processor supports
// it, and asks the tensors' allocator, for an amount that depends on the processor. Source: torch's
// ATen/record_function.h, the hooks that its profiler uses.
#pragma once

#include <ATen/core/Tensor.h>

namespace gradsync::measure {

// Calls `on_output`, from now on, with each tensor that an outermost operator returns, on the
// thread that called it, once the operator has ended. It must not throw. Call once per process,
// while no operator runs.   Cost: two calls per operator and a copy of its outputs' handles.
void observe_operators(void (*on_output)(const at::Tensor& output));

// Returns whether this thread is inside of an operator; false where operators are not observed.
bool inside_operator();

// Makes library_asks() work from now on. Call once per process, while no operator runs.   Cost: two
// calls per operator.
void observe_products();

// Returns whether the next allocation of this thread is scratch memory of a matrix product's
// library. Call once for each allocation; false if products are not observed.
bool library_asks();

}  // namespace gradsync::measure
