// A library that calls NCCL and the CUDA runtime, as a training framework's does. It is compiled
// three times: with the stubs, with another copy of NCCL's, and without any, to be loaded by
// nccl_host.cpp.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "tests/harness/watch/inject/preload/cudart_stub.h"
#include "tests/harness/watch/inject/preload/nccl_stub.h"

namespace {

// As NCCL numbers them.
constexpr ncclDataType_t kInt8 = 0;
constexpr ncclDataType_t kUint8 = 1;
constexpr ncclDataType_t kInt32 = 2;
constexpr ncclDataType_t kUint32 = 3;
constexpr ncclDataType_t kInt64 = 4;
constexpr ncclDataType_t kFloat16 = 6;
constexpr ncclDataType_t kFloat32 = 7;
constexpr ncclDataType_t kFloat64 = 8;
constexpr ncclDataType_t kBfloat16 = 9;
constexpr ncclDataType_t kFloat8e4m3 = 10;
constexpr ncclDataType_t kFloat8e5m2 = 11;
constexpr ncclDataType_t kOfALaterNccl = 12;
constexpr ncclRedOp_t kAverage = 4;

ncclComm of_four{1, 4};
ncclComm of_two{0, 2};

const void* const send = reinterpret_cast<const void*>(0x10);
void* const receive = reinterpret_cast<void*>(0x20);

cudaStream_t stream(long number) {
  return reinterpret_cast<cudaStream_t>(number);
}

void tell(int result) {
  std::printf("-> %d\n", result);
}

ncclResult_t all_reduce(std::size_t count, cudaStream_t on) {
  return ncclAllReduce(send, receive, count, kFloat32, kAverage, &of_four, on);
}

void call_each() {
  tell(all_reduce(100, stream(3)));
  tell(ncclBroadcast(send, receive, 10, kInt8, 2, &of_four, stream(3)));
  tell(ncclBcast(receive, 3, kFloat64, 1, &of_two, stream(4)));
  tell(ncclReduce(send, receive, 10, kBfloat16, kAverage, 3, &of_four, stream(3)));
  tell(ncclAllGather(send, receive, 5, kInt64, &of_four, stream(3)));
  tell(ncclReduceScatter(send, receive, 5, kFloat16, kAverage, &of_two, stream(4)));
  tell(ncclSend(send, 7, kFloat8e4m3, 3, &of_four, stream(3)));
  tell(ncclRecv(receive, 9, kFloat8e5m2, 2, &of_four, stream(3)));
  tell(ncclAlltoAll(send, receive, 2, kUint32, &of_four, stream(3)));
  tell(ncclGather(send, receive, 2, kInt32, 1, &of_four, stream(3)));
  tell(ncclScatter(send, receive, 2, kUint8, 1, &of_four, stream(3)));
  tell(ncclAllReduce(send, receive, 1, kOfALaterNccl, kAverage, &of_four, stream(3)));
  tell(ncclAllGather(send, receive, 1, kInt8, nullptr, stream(3)));
}

// One process with several GPUs.
void call_for_several_ranks() {
  ncclComm_t comms[3] = {};
  tell(ncclCommInitAll(comms, 3, nullptr));
  for (ncclComm_t comm : comms) {
    tell(ncclAllReduce(send, receive, 6, kInt8, kAverage, comm, stream(3)));
  }
}

void call_in_a_child() {
  tell(all_reduce(1, stream(3)));
  std::fflush(stdout);
  if (const pid_t child = ::fork(); child != 0) {
    ::waitpid(child, nullptr, 0);
    return;
  }
  tell(all_reduce(2, stream(3)));
  std::fflush(stdout);
  ::_exit(0);
}

cudaGraph_t capture(std::size_t count) {
  tell(cudaStreamBeginCapture(stream(3), 1));
  tell(all_reduce(count, stream(4)));      // a stream that joined the capture
  tell(all_reduce(1000, stream(kApart)));  // one that did not
  tell(all_reduce(2000, nullptr));         // nor can this
  tell(all_reduce(count + 1, stream(3)));
  cudaGraph_t graph = nullptr;
  tell(cudaStreamEndCapture(stream(3), &graph));
  return graph;
}

void launch_graphs() {
  cudaGraph_t graph = capture(10);
  cudaGraphExec_t executables[3] = {};
  tell(cudaGraphInstantiate(&executables[0], graph, 5));
  tell(cudaGraphInstantiateWithFlags(&executables[1], graph, 6));
  tell(cudaGraphInstantiateWithParams(&executables[2], graph, reinterpret_cast<void*>(7)));
  tell(cudaGraphDestroy(graph));
  for (cudaGraphExec_t executable : executables) tell(cudaGraphLaunch(executable, stream(3)));
  tell(cudaGraphLaunch(executables[0], stream(3)));
  tell(cudaGraphExecDestroy(executables[0]));
  tell(cudaGraphLaunch(executables[0], stream(3)));  // as if the handle came again
  tell(all_reduce(1, stream(3)));
}

}  // namespace

extern "C" void run_job(const char* what) {
  if (std::strcmp(what, "each") == 0) call_each();
  if (std::strcmp(what, "several ranks") == 0) call_for_several_ranks();
  if (std::strcmp(what, "child") == 0) call_in_a_child();
  if (std::strcmp(what, "graphs") == 0) launch_graphs();
  std::fflush(stdout);
}
