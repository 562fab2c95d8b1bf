// How the other stand-ins put work on a stream.
//
// A stream of paper has no queue: work runs at once, in the thread that asks for it. The exception
// is a stream that is being captured into a graph: there the work runs with each launch of the
// graph, and not before.
#pragma once

#include <functional>

namespace gradsync::paper {

// Runs `work` now or, where `stream` is being captured, with each launch of its graph.
// `stream`: a cudaStream_t, which is a CUstream; null is the default stream.
void enqueue(void* stream, std::function<void()> work);

}  // namespace gradsync::paper
