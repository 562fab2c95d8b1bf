// The GPUs of this machine, from the driver's management library (NVML), loaded at run time: a
// machine without a driver has none, and a build needs nothing of CUDA to ask.
//
// Source: NVML API Reference Guide; the functions and structures used are declared in nvml_api.h.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/known.h"
#include "harness/launch/host.h"

namespace gradsync::launch {

inline constexpr const char* kNvml = "libnvidia-ml.so.1";

// A process that computes on a GPU.
struct GpuProcess {
  unsigned pid = 0;
  std::optional<std::uint64_t> memory_bytes;
};

// Facts about a GPU. A fact that the driver does not report is unset.
struct GpuInfo {
  unsigned index = 0;
  std::optional<std::string> name;
  std::optional<std::string> uuid;
  std::optional<std::string> pci_bus_id;
  std::optional<std::string> driver;
  std::optional<std::uint64_t> memory_total_bytes;
  std::optional<std::uint64_t> memory_used_bytes;
  std::optional<std::int64_t> sm_clock_hz;
  std::optional<std::int64_t> sm_clock_max_hz;
  std::optional<std::int64_t> memory_clock_hz;
  std::optional<std::int64_t> memory_clock_max_hz;
  // What holds the clocks down now, in words: {"sw_power_cap"}; {}: nothing.
  std::optional<std::vector<std::string>> throttle_reasons;
  std::optional<std::string> compute_mode;  // "default", "exclusive_process", "prohibited"
  std::optional<std::vector<GpuProcess>> processes;
  // If the GPU is divided (MIG): the uuids of its instances, which CUDA shows instead.
  std::optional<std::vector<std::string>> mig_instances;
};

// Writes it as in a result's context, under these names; what is unset is null.
void to_json(nlohmann::json& out, const GpuInfo& gpu);

// Returns the GPUs of this machine, by PCI bus id, whatever CUDA_VISIBLE_DEVICES says, or why the
// driver cannot be asked. Never throws. Cost: tens of milliseconds where a driver is.
Known<std::vector<GpuInfo>> probe_gpus(const std::string& library = kNvml);

// Returns what in probe_gpus() would disturb measurements: GPUs that others use, clocks held down.
// Pure.
std::vector<Finding> examine_gpus(const Known<std::vector<GpuInfo>>& gpus);

}  // namespace gradsync::launch
