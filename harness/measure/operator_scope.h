// Whether this thread is inside of an operator, and what the operator hands out at its end.
//
// A kernel asks the tensors' allocator for room of its own: workspaces, indices, and the
// scratchpads of oneDNN, some of whose generated code keeps pointers there. Nobody outside may
// touch that room before the operator ends. What the operator returns belongs to whoever called it.
//
// An operator is a call through PyTorch's dispatcher; those that it calls itself are part of it.
// Not taken for one are those inside of which no kernel computes: at::empty and its like, which
// only allocate, and the backward of a whole graph, each of whose nodes calls operators of its own.
// A matrix product may leave its arithmetic to a library. MKL, which has those in float32, asks the
// system for what it needs beside the result; oneDNN, which has those in bfloat16 where the
// processor knows it, asks the tensors' allocator, for as much as suits that processor. Source:
// torch's ATen/record_function.h, the hooks that its profiler uses.
#pragma once

#include <ATen/core/Tensor.h>

namespace gradsync::measure {

// From now on `on_output` gets each tensor that an outermost operator returns, on the thread that
// called it, once the operator has ended. It must not throw. Once per process, while no operator
// runs.   Cost: two calls per operator and a copy of its outputs' handles.
void observe_operators(void (*on_output)(const at::Tensor& output));

// Returns whether this thread is inside of an operator; false where operators are not observed.
bool inside_operator();

// From now on library_asks() knows. Once per process, while no operator runs.   Cost: two calls per
// operator.
void observe_products();

// Returns whether what this thread is about to allocate is a product's, beside its result: its
// library's. To be asked once for each allocation; false where products are not observed.
bool library_asks();

}  // namespace gradsync::measure
