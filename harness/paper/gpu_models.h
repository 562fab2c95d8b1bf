// The GPUs that paper can be: a name, what the driver says of its memory, and the limits of its
// architecture. They decide what torch allocates and which kernels it chooses; no kernel ever runs.
//
// Sources: limits by compute capability from the CUDA C++ Programming Guide, "Technical
// Specifications per Compute Capability"; numbers of multiprocessors and caches from NVIDIA's data
// sheets; memory as torch's own messages print it ("total capacity of 79.15 GiB", an A100 in
// vllm-project/vllm#4408; 178.35, a B200 in pytorch/ao#4002; 14.75, a T4 in
// hpcaitech/Open-Sora#697): the driver keeps a part, which differs between drivers by a fraction of
// a GiB.
//
// Both the program and the stand-ins, which know nothing else of this tree, compile this file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gradsync::paper {

// The last digit of the driver's version, which is 0 for real drivers. torch.profiler keeps the
// version in its traces: by this one knows those that were made on paper.
inline constexpr int kDriverDigit = 9;

struct GpuModel {
  std::string name;          // as it is asked for: "h100"
  std::string product;       // as the driver says it: "NVIDIA H100 80GB HBM3"
  double memory_gib = 0;     // all that cudaMemGetInfo calls total
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  int l2_mib = 0;
};

// What an architecture allows, the same for every GPU of a compute capability.
struct ArchitectureLimits {
  int threads_per_multiprocessor = 0;
  int blocks_per_multiprocessor = 0;
  int shared_kib_per_multiprocessor = 0;
  int shared_kib_per_block = 0;  // with the opt-in
};

struct Gpus {
  int count = 0;
  GpuModel model;
  std::uint64_t memory_bytes() const;
};

// Returns every model by name, in the order of their compute capabilities.
const std::vector<GpuModel>& gpu_models();

ArchitectureLimits limits_of(const GpuModel& model);

// Reads "8xh100", "h100" (one) or "8x79GiB" (an H100 with that memory).
// Errors: an empty result, and in `wrong` one sentence that says what was expected.
Gpus parse_gpus(std::string_view text, std::string& wrong);

}  // namespace gradsync::paper
