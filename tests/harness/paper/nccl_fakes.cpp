// What stands below NCCL of paper in its tests: a few functions of CUDA, and streams.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

#include "harness/paper/standins/streams.h"
#include "harness/paper/standins/unwritten.h"
#include "tests/harness/paper/nccl_ranks.h"

namespace gradsync::paper {

// Ends a test program that waits for a rank that never comes.
class Watchdog : public ::testing::Environment {
  void SetUp() override { ::alarm(2 * test::kWatchdogSeconds); }
};
const auto* const kWatchdog = ::testing::AddGlobalTestEnvironment(new Watchdog);

void enqueue(void* /*stream*/, std::function<void()> work) {
  if (test::captured == nullptr) return work();
  test::captured->push_back(std::move(work));
}

void note_copy(const void* to, const void* from, std::size_t bytes) {
  test::written[to] = test::written.count(from) == 0 ? 0 : bytes;
}

void note_written(const void* to, std::size_t bytes) {
  test::written[to] = bytes;
}

}  // namespace gradsync::paper

// NOLINTBEGIN(readability-identifier-naming): the names are CUDA's
extern "C" {

cudaError_t cudaGetDevice(int* device) {
  *device = gradsync::paper::test::gpu;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* bus, int bytes, int device) {
  std::snprintf(bus, static_cast<std::size_t>(bytes), "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  *pointer = std::malloc(bytes);
  return cudaSuccess;
}

cudaError_t cudaFree(void* pointer) {
  std::free(pointer);
  return cudaSuccess;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
