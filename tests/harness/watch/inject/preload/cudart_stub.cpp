// A libcudart.so that runs nothing: each function prints what it was given, handles are numbers,
// and its symbols have a version, as the real one's.
#include "tests/harness/watch/inject/preload/cudart_stub.h"

#include <cstdio>
#include <cstdlib>

namespace {

bool is_capturing = false;
long graphs = 0x1000;
long executables = 0x2000;

cudaError_t tell(const char* function, const void* handle, unsigned long long other = 0) {
  std::printf(STUB_NAME " %s %p %llu\n", function, handle, other);
  const char* result = std::getenv("STUB_RESULT");
  return result == nullptr ? 0 : std::atoi(result);
}

cudaError_t instantiate(const char* function, cudaGraphExec_t* executable, cudaGraph_t graph,
                        unsigned long long other) {
  *executable = reinterpret_cast<cudaGraphExec_t>(++executables);
  return tell(function, graph, other);
}

}  // namespace

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int mode) {
  is_capturing = true;
  return tell("cudaStreamBeginCapture", stream, static_cast<unsigned>(mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  is_capturing = false;
  *graph = reinterpret_cast<cudaGraph_t>(++graphs);
  return tell("cudaStreamEndCapture", stream);
}

// Prints only what the real one would not forgive.
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, int* status) {
  if (stream == nullptr) return tell("cudaStreamIsCapturing of the legacy stream", stream);
  *status = is_capturing && stream != reinterpret_cast<cudaStream_t>(kApart) ? 1 : 0;
  return 0;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long flags) {
  return instantiate("cudaGraphInstantiate", executable, graph, flags);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                          unsigned long long flags) {
  return instantiate("cudaGraphInstantiateWithFlags", executable, graph, flags);
}

cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* executable, cudaGraph_t graph,
                                           void* parameters) {
  return instantiate("cudaGraphInstantiateWithParams", executable, graph,
                     reinterpret_cast<unsigned long long>(parameters));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t) {
  return tell("cudaGraphLaunch", executable);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return tell("cudaGraphDestroy", graph);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return tell("cudaGraphExecDestroy", executable);
}
