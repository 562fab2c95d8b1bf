// The GPUs of this machine, from the driver's management library (NVML), loaded at run time: a
// machine without a driver has none, and a build needs nothing of CUDA to ask.
//
// Source: NVML API Reference Guide; the functions and structures used are declared in nvml_api.h.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/launch/host.h"

namespace gradsync::launch {

inline constexpr const char* kNvml = "libnvidia-ml.so.1";

// Returns {"gpus": [...], "reason": null}, or {"gpus": null, "reason": "..."} where the driver
// cannot be asked. Each GPU, whatever CUDA_VISIBLE_DEVICES says:
//   "index", "name", "uuid", "pci_bus_id", "driver", "memory_total_bytes", "memory_used_bytes"
//   "sm_clock_hz", "sm_clock_max_hz", "memory_clock_hz", "memory_clock_max_hz"
//   "throttle_reasons": what holds the clocks down now, as words: ["sw_power_cap"]; [] is nothing
//   "compute_mode": "default", "exclusive_process", "prohibited"
//   "processes": [{"pid", "memory_bytes"}] that compute on it
// What one GPU does not tell is null. Never throws. Cost: tens of milliseconds where a driver is.
nlohmann::json probe_gpus(const std::string& library = kNvml);

// Returns what of probe_gpus() would spoil a number: GPUs that others use, clocks held down. Pure.
std::vector<Finding> examine_gpus(const nlohmann::json& probe);

}  // namespace gradsync::launch
