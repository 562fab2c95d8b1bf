// The driver and the runtime of paper, called as torch calls them.
//
// Covers: address_space.cpp, attributes.cpp, cuda_device.cpp, cuda_memory.cpp, cuda_modules.cpp,
// cudart_device.cpp, cudart_memory.cpp, cudart_streams.cpp, driver_entry.cpp, machine.cpp,
// standins/memory.cpp, pools.cpp, stream_state.cpp.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <vector>

#include "harness/paper/standins/driver_entry.h"

namespace {

constexpr std::size_t kGib = std::size_t{1} << 30;
constexpr std::size_t kMib = std::size_t{1} << 20;

// Before anything asks for it: the machine is read once.
const int kPaper = ::setenv("GRADSYNC_PAPER", "2x1GiB", 1);

std::size_t free_bytes() {
  std::size_t free_now = 0;
  std::size_t total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free_now, &total), cudaSuccess);
  EXPECT_EQ(total, kGib);
  return free_now;
}

TEST(Paper, DevicesAreTheThreadsOwn) {
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  CUdevice driver = 0;
  EXPECT_EQ(cuCtxGetDevice(&driver), CUDA_SUCCESS);
  EXPECT_EQ(driver, 1);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

TEST(Paper, MemoryEndsWhereTheDeviceDoes) {
  std::vector<void*> blocks(4);
  for (void*& block : blocks) ASSERT_EQ(cudaMalloc(&block, kGib / 4), cudaSuccess);
  void* more = &more;
  EXPECT_EQ(cudaMalloc(&more, 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(more, nullptr);
  cudaGetLastError();
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(free_bytes(), kGib) << "the other device has its own";
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  for (void* block : blocks) EXPECT_EQ(cudaFree(block), cudaSuccess);
  EXPECT_EQ(free_bytes(), kGib);
  EXPECT_EQ(cudaFree(blocks.front()), cudaErrorInvalidValue) << "twice";
  cudaGetLastError();
}

TEST(Paper, SmallCopiesAreRealAndFreshMemoryIsZero) {
  void* block = nullptr;
  ASSERT_EQ(cudaMalloc(&block, kMib), cudaSuccess);
  std::array<int, 2> values{7, 8};
  ASSERT_EQ(cudaMemcpy(block, values.data(), sizeof values, cudaMemcpyHostToDevice), cudaSuccess);
  std::array<int, 3> read{1, 1, 1};
  ASSERT_EQ(cudaMemcpy(read.data(), block, sizeof read, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(read, (std::array{7, 8, 0}));
  ASSERT_EQ(cudaFree(block), cudaSuccess);
  void* again = nullptr;
  ASSERT_EQ(cudaMalloc(&again, kMib), cudaSuccess);
  EXPECT_EQ(again, block) << "addresses come back";
  ASSERT_EQ(cudaMemcpy(read.data(), again, sizeof read, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(read, (std::array{0, 0, 0}));
  ASSERT_EQ(cudaFree(again), cudaSuccess);
}

TEST(Paper, PointersAreKnownForWhatTheyAre) {
  void* device = nullptr;
  void* pinned = nullptr;
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&device, 100), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  ASSERT_EQ(cudaMallocHost(&pinned, 100), cudaSuccess);
  int plain = 0;
  cudaPointerAttributes facts{};
  ASSERT_EQ(cudaPointerGetAttributes(&facts, static_cast<char*>(device) + 99), cudaSuccess);
  EXPECT_EQ(facts.type, cudaMemoryTypeDevice);
  EXPECT_EQ(facts.device, 1);
  ASSERT_EQ(cudaPointerGetAttributes(&facts, static_cast<char*>(pinned) + 99), cudaSuccess);
  EXPECT_EQ(facts.type, cudaMemoryTypeHost);
  ASSERT_EQ(cudaPointerGetAttributes(&facts, static_cast<char*>(pinned) + 100), cudaSuccess);
  EXPECT_EQ(facts.type, cudaMemoryTypeUnregistered);
  ASSERT_EQ(cudaPointerGetAttributes(&facts, &plain), cudaSuccess);
  EXPECT_EQ(facts.type, cudaMemoryTypeUnregistered);
  ASSERT_EQ(cudaFree(device), cudaSuccess);
  ASSERT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

// As an expandable segment lives: reserved once, mapped and unmapped in pieces.
TEST(Paper, MappedMemoryIsHeldUntilItIsReleasedAndUnmapped) {
  CUdeviceptr start = 0;
  ASSERT_EQ(cuMemAddressReserve(&start, 4 * kGib, 0, 0, 0), CUDA_SUCCESS);
  CUmemAllocationProp properties{};
  properties.location.id = 0;
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_EQ(cuMemCreate(&handle, 20 * kMib, &properties, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(start, 20 * kMib, 0, handle, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), kGib - 20 * kMib);
  ASSERT_EQ(cuMemUnmap(start, 20 * kMib), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), kGib);
  EXPECT_EQ(cuMemCreate(&handle, 2 * kGib, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
  ASSERT_EQ(cuMemAddressFree(start, 4 * kGib), CUDA_SUCCESS);
}

TEST(Paper, ACapturedCopyRunsWithEachLaunch) {
  cudaStream_t stream = nullptr;
  cudaStream_t other = nullptr;
  cudaEvent_t fork = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaStreamCreate(&other), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&fork), cudaSuccess);
  void* block = nullptr;
  ASSERT_EQ(cudaMalloc(&block, sizeof(int)), cudaSuccess);

  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(fork, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(other, fork, 0), cudaSuccess);
  int value = 1;
  ASSERT_EQ(cudaMemcpyAsync(block, &value, sizeof value, cudaMemcpyHostToDevice, other),
            cudaSuccess);
  cudaStreamCaptureStatus status{};
  ASSERT_EQ(cudaStreamIsCapturing(other, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  std::size_t nodes = 0;
  ASSERT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
  EXPECT_EQ(nodes, 1U);

  const auto read = [&] {
    int now = -1;
    EXPECT_EQ(cudaMemcpy(&now, block, sizeof now, cudaMemcpyDeviceToHost), cudaSuccess);
    return now;
  };
  EXPECT_EQ(read(), 0) << "nothing ran while it was captured";
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiateWithFlags(&executable, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  for (const int next : {5, 6}) {
    value = next;
    ASSERT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
    EXPECT_EQ(read(), next);
  }
  ASSERT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  ASSERT_EQ(cudaFree(block), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(other), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(other), cudaErrorInvalidResourceHandle);
}

TEST(Paper, NoLimitIsZero) {
  cudaDeviceProp properties{};
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_EQ(properties.totalGlobalMem, kGib);
  for (const int limit :
       {properties.multiProcessorCount, properties.warpSize, properties.maxThreadsPerBlock,
        properties.maxThreadsPerMultiProcessor, properties.maxGridSize[0],
        properties.maxGridSize[1], properties.maxThreadsDim[2], properties.l2CacheSize,
        properties.maxBlocksPerMultiProcessor}) {
    EXPECT_GT(limit, 0);
  }
}

TEST(Paper, TheDriversFunctionsAreFoundByTheirNewestName) {
  EXPECT_EQ(gradsync::paper::driver_entry("cuMemAlloc"), reinterpret_cast<void*>(&cuMemAlloc));
  EXPECT_EQ(gradsync::paper::driver_entry("cuNoSuchThing"), nullptr);
}

}  // namespace
