// The CPUs near a GPU: those of the NUMA node that its PCI bus hangs on. A rank on other CPUs
// launches its kernels, and copies to and from its GPU, across the link between sockets.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/launch/gpus.h"
#include "harness/launch/host.h"

namespace gradsync::launch {

// Returns the CPUs that the kernel calls local to the PCI device, by `sysfs`; nothing where it does
// not tell. `pci_bus_id`: as NVML writes it, "00000000:41:00.0".
std::optional<std::vector<int>> cpus_near(const std::string& pci_bus_id,
                                          const std::string& sysfs = "/sys");

// Returns that none of the CPUs that ranks may use (`usable`) is among those near the GPU; nothing
// where one is, or it is not known. Pure.
std::optional<Finding> examine_nearness(const GpuInfo& gpu, const std::vector<int>& usable,
                                        const std::optional<std::vector<int>>& near);

}  // namespace gradsync::launch
