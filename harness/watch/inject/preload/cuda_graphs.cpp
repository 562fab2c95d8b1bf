// Stands before those functions of the CUDA runtime through which a graph is captured, made and
// launched, as nccl.cpp does before NCCL's.
//
// Declared by hand after cuda_runtime_api.h of CUDA 11 to 13. Not seen are the functions' doubles
// for per-thread default streams (..._ptsz), the driver's own (cuGraphLaunch), and a runtime that
// is linked statically: replays of what such a program captures are not counted.
#include <stdint.h>

#include <atomic>

#include "harness/watch/inject/preload/captured_calls.h"
#include "harness/watch/inject/preload/event_kind.h"
#include "harness/watch/inject/preload/nccl_calls.h"
#include "harness/watch/inject/preload/next_definition.h"

using cudaError_t = int;
using cudaGraph_t = struct CUgraph_st*;
using cudaGraphExec_t = struct CUgraphExec_st*;

namespace gradsync::watch {
namespace {

constexpr cudaError_t kSuccess = 0;
constexpr cudaError_t kSymbolNotFound = 302;  // cudaErrorSharedObjectSymbolNotFound
constexpr int kCaptureIsActive = 1;
constexpr std::uintptr_t kLegacyStream = 1;  // 0 means it, too; it cannot be captured

constexpr const char* kLibraries[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0",
                                      nullptr};
constexpr SymbolVersions kVersions = SymbolVersions::Yes;

constinit CapturedCalls captured;

// cudaStreamIsCapturing, of the runtime that began the latest capture.
using AskStream = cudaError_t (*)(cudaStream_t, int*);
constinit std::atomic<AskStream> is_capturing{nullptr};

void begin(const void* caller, cudaStream_t stream) {
  static constinit NextDefinition next("cudaStreamIsCapturing", kLibraries, kVersions);
  is_capturing = reinterpret_cast<AskStream>(next.find(caller));
  captured.begin(stream);
}

template <typename... More>
cudaError_t instantiate(NextDefinition& next, const void* caller, cudaGraphExec_t* executable,
                        cudaGraph_t graph, More... more) {
  const cudaError_t result = call_on<kSymbolNotFound>(next, caller, executable, graph, more...);
  if (result == kSuccess) captured.instantiate(graph, *executable);
  return result;
}

// Asking about the legacy stream would be an error of the job's while something is captured.
bool takes_part(cudaStream_t stream) {
  const AskStream ask = is_capturing;
  if (reinterpret_cast<std::uintptr_t>(stream) <= kLegacyStream || ask == nullptr) return false;
  int status = 0;
  return ask(stream, &status) == kSuccess && status == kCaptureIsActive;
}

void replay(const NcclCall& call) {
  record_nccl_call(call, kNcclReplayed);
}

}  // namespace

bool capture(const NcclCall& call, cudaStream_t stream) noexcept {
  if (!captured.is_under_way() || !takes_part(stream)) return false;
  if (!captured.add(stream, call)) {
    record_nccl_fault(
        "CUDA graphs were captured at the same time: replays of their collectives are not counted");
  }
  return true;
}

}  // namespace gradsync::watch

using namespace gradsync::watch;

// NOLINTBEGIN(readability-identifier-naming): the names are CUDA's
#pragma GCC visibility push(default)
extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int mode) {
  static constinit NextDefinition next("cudaStreamBeginCapture", kLibraries, kVersions);
  const void* caller = __builtin_return_address(0);
  const cudaError_t result = call_on<kSymbolNotFound>(next, caller, stream, mode);
  if (result == kSuccess && nccl_is_watched()) begin(caller, stream);
  return result;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  static constinit NextDefinition next("cudaStreamEndCapture", kLibraries, kVersions);
  const cudaError_t result =
      call_on<kSymbolNotFound>(next, __builtin_return_address(0), stream, graph);
  captured.end(stream, result == kSuccess ? *graph : nullptr);
  return result;
}

// Up to CUDA 11 it had five arguments, since then three. What is not there is passed on unread.
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, std::uintptr_t a,
                                 std::uintptr_t b, std::uintptr_t c) {
  static constinit NextDefinition next("cudaGraphInstantiate", kLibraries, kVersions);
  return instantiate(next, __builtin_return_address(0), executable, graph, a, b, c);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                          unsigned long long flags) {
  static constinit NextDefinition next("cudaGraphInstantiateWithFlags", kLibraries, kVersions);
  return instantiate(next, __builtin_return_address(0), executable, graph, flags);
}

cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* executable, cudaGraph_t graph,
                                           void* parameters) {
  static constinit NextDefinition next("cudaGraphInstantiateWithParams", kLibraries, kVersions);
  return instantiate(next, __builtin_return_address(0), executable, graph, parameters);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  static constinit NextDefinition next("cudaGraphLaunch", kLibraries, kVersions);
  const cudaError_t result =
      call_on<kSymbolNotFound>(next, __builtin_return_address(0), executable, stream);
  if (result == kSuccess) captured.for_each(executable, replay);
  return result;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  static constinit NextDefinition next("cudaGraphDestroy", kLibraries, kVersions);
  captured.forget_graph(graph);
  return call_on<kSymbolNotFound>(next, __builtin_return_address(0), graph);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  static constinit NextDefinition next("cudaGraphExecDestroy", kLibraries, kVersions);
  captured.forget_executable(executable);
  return call_on<kSymbolNotFound>(next, __builtin_return_address(0), executable);
}

}  // extern "C"
#pragma GCC visibility pop
// NOLINTEND(readability-identifier-naming)
