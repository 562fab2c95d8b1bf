// The CUDA runtime of paper: streams, events, graphs and kernels, which go nowhere.
#include <cuda_runtime_api.h>

#include <cstring>
#include <memory>

#include "harness/paper/standins/cudart_error.h"
#include "harness/paper/standins/stream_state.h"
#include "harness/paper/standins/streams.h"

using namespace gradsync::paper;

namespace {

using GraphHolder = std::shared_ptr<Graph>;  // what a cudaGraph_t or cudaGraphExec_t points to

constexpr double kNsPerMs = 1e6;

// A kernel: a node of a graph that is being captured, and nothing else.
cudaError_t launch_nothing(cudaStream_t stream) {
  if (stream_of(stream) == nullptr) return remember(cudaErrorInvalidResourceHandle);
  enqueue(stream, [] {});
  return cudaSuccess;
}

cudaStreamCaptureStatus status_of(const Stream& stream) {
  return capture_of(stream) == nullptr ? cudaStreamCaptureStatusNone
                                       : cudaStreamCaptureStatusActive;
}

cudaError_t capture_info(cudaStream_t handle, cudaStreamCaptureStatus* status,
                         unsigned long long* id, cudaGraph_t* graph) {
  const Stream* stream = stream_of(handle);
  if (stream == nullptr) return remember(cudaErrorInvalidResourceHandle);
  *status = status_of(*stream);
  Capture* capture = capture_of(*stream);
  if (id != nullptr) *id = capture == nullptr ? 0 : capture->id;
  if (graph != nullptr) {
    *graph = capture == nullptr ? nullptr : reinterpret_cast<cudaGraph_t>(&capture->graph);
  }
  return cudaSuccess;
}

cudaError_t occupancy(int* blocks) {
  constexpr int kBlocks = 2;  // of a kernel in a multiprocessor: most have room for some
  *blocks = kBlocks;
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  *stream = reinterpret_cast<cudaStream_t>(make_stream(flags, priority));
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, 0, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return remember(destroy_stream(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  const Stream* stream = stream_of(handle);
  if (stream == nullptr) return remember(cudaErrorInvalidResourceHandle);
  *priority = stream->priority;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  const Stream* stream = stream_of(handle);
  if (stream == nullptr) return remember(cudaErrorInvalidResourceHandle);
  return is_done(*stream) ? cudaSuccess : remember(cudaErrorNotReady);
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  const Stream* stream = stream_of(handle);
  if (stream == nullptr) return remember(cudaErrorInvalidResourceHandle);
  if (capture_of(*stream) != nullptr) return remember(cudaErrorStreamCaptureUnsupported);
  host_waits_for(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  Stream* stream = stream_of(handle);
  if (stream == nullptr || !is_event(event)) return remember(cudaErrorInvalidResourceHandle);
  wait(*stream, *reinterpret_cast<Event*>(event));
  return cudaSuccess;
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t call, void* data,
                                  unsigned) {
  enqueue(stream, [=] { call(stream, cudaSuccess, data); });
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t call, void* data) {
  enqueue(stream, [=] { call(data); });
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
  Stream* stream = stream_of(handle);
  if (stream == nullptr) return remember(cudaErrorInvalidResourceHandle);
  return remember(begin_capture(*stream) ? cudaSuccess : cudaErrorIllegalState);
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  Stream* stream = stream_of(handle);
  GraphHolder captured = stream == nullptr ? nullptr : end_capture(*stream);
  if (captured == nullptr) return remember(cudaErrorIllegalState);
  *graph = reinterpret_cast<cudaGraph_t>(new GraphHolder(std::move(captured)));
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return capture_info(handle, status, nullptr, nullptr);
}

#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* count) {
  if (edges != nullptr) *edges = nullptr;
#else
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                        unsigned long long* id, cudaGraph_t* graph,
                                        const cudaGraphNode_t** dependencies, size_t* count) {
#endif
  if (dependencies != nullptr) *dependencies = nullptr;
  if (count != nullptr) *count = 0;
  return capture_info(stream, status, id, graph);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  static thread_local cudaStreamCaptureMode current = cudaStreamCaptureModeGlobal;
  std::swap(*mode, current);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = reinterpret_cast<cudaEvent_t>(make_event(flags));
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return remember(destroy_event(event) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  Stream* stream = stream_of(handle);
  if (stream == nullptr || !is_event(event)) return remember(cudaErrorInvalidResourceHandle);
  record(*reinterpret_cast<Event*>(event), *stream);
  return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return cudaEventRecord(event, stream);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (!is_event(event)) return remember(cudaErrorInvalidResourceHandle);
  return remember(has_happened(*reinterpret_cast<const Event*>(event)) ? cudaSuccess
                                                                       : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (!is_event(event)) return remember(cudaErrorInvalidResourceHandle);
  host_waits_for(*reinterpret_cast<Event*>(event));
  return cudaSuccess;
}

// The host's time between the two: the device's does not exist.
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  if (!is_event(start) || !is_event(end)) return remember(cudaErrorInvalidResourceHandle);
  const auto& first = *reinterpret_cast<Event*>(start);
  const auto& last = *reinterpret_cast<Event*>(end);
  if (first.recorded_ns < 0 || last.recorded_ns < 0) {
    return remember(cudaErrorInvalidResourceHandle);
  }
  *ms = static_cast<float>(static_cast<double>(last.recorded_ns - first.recorded_ns) / kNsPerMs);
  return cudaSuccess;
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  std::memset(handle, 0, sizeof *handle);
  return remember(is_event(event) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t) {
  return cudaEventCreate(event);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                          unsigned long long) {
  const auto& captured = *reinterpret_cast<GraphHolder*>(graph);
  *executable = reinterpret_cast<cudaGraphExec_t>(new GraphHolder(captured));
  return cudaSuccess;
}

#if CUDART_VERSION >= 12000
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(executable, graph, flags);
}
#endif

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  const GraphHolder graph = *reinterpret_cast<GraphHolder*>(executable);
  enqueue(stream, [graph] {
    for (const auto& work : graph->work) work();
  });
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete reinterpret_cast<GraphHolder*>(executable);
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<GraphHolder*>(graph);
  return cudaSuccess;
}

// How many there are; nodes themselves have no use here.
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  if (nodes != nullptr) return remember(cudaErrorNotSupported);
  *count = (*reinterpret_cast<GraphHolder*>(graph))->work.size();
  return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t stream) {
  return launch_nothing(stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void*, void**) {
  return launch_nothing(config->stream);
}

cudaError_t cudaLaunchCooperativeKernel(const void*, dim3, dim3, void**, size_t,
                                        cudaStream_t stream) {
  return launch_nothing(stream);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  std::memset(attributes, 0, sizeof *attributes);
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->ptxVersion = attributes->binaryVersion = 90;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  return cudaSuccess;
}

cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) {
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, size_t) {
  return occupancy(blocks);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int,
                                                                   size_t, unsigned) {
  return occupancy(blocks);
}

}  // extern "C"
