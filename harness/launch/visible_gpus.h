// Which of the GPUs that the driver's library lists do the ranks of a host use?
//
// Not those of the same numbers. NVML lists all, by PCI bus id. CUDA shows what
// CUDA_VISIBLE_DEVICES names, by uuid or by a number of its own order: the fastest first, unless
// CUDA_DEVICE_ORDER=PCI_BUS_ID. Where all are of one model that comes to the same; else only CUDA
// knows, and that is said rather than guessed. Pure; no CUDA.
//
// Source: CUDA C++ Programming Guide, "CUDA Environment Variables"; NVIDIA MIG User Guide, "Device
// Enumeration".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/launch/gpus.h"
#include "harness/launch/host.h"
#include "harness/launch/task_place.h"

namespace gradsync::launch {

// Returns the GPUs of `gpus` (as NVML has them) that ranks of one host take, `ranks` of them, in
// CUDA's order. All that may be meant where doubt_of_order() is there.
std::vector<GpuInfo> gpus_of_ranks(const std::vector<GpuInfo>& gpus, const Environment& environment,
                                   int ranks);

// Returns that there are AMD's GPUs, which nothing here computes on; nothing where there are none.
// `devices`: where the kernel's driver of ROCm shows itself.
std::optional<Finding> find_rocm(const std::string& devices = "/dev");

// Returns why numbers of GPUs may be others to CUDA than to NVML and nvidia-smi; nothing where they
// are the same, or uuids are used. The same of what gpus_of_ranks() returned.
std::optional<Finding> doubt_of_order(const std::vector<GpuInfo>& gpus,
                                      const Environment& environment);

}  // namespace gradsync::launch
