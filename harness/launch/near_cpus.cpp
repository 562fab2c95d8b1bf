#include "harness/launch/near_cpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>

namespace gradsync::launch {
namespace {

// "0000:41:00.0" of NVML's "00000000:41:00.0", whose domain has eight digits.
std::string kernel_name(std::string pci_bus_id) {
  constexpr std::size_t kLength = 12;
  std::ranges::transform(pci_bus_id, pci_bus_id.begin(),
                         [](unsigned char letter) { return std::tolower(letter); });
  return pci_bus_id.size() <= kLength ? pci_bus_id : pci_bus_id.substr(pci_bus_id.size() - kLength);
}

}  // namespace

std::optional<std::vector<int>> cpus_near(const std::string& pci_bus_id, const std::string& sysfs) {
  std::ifstream file(
      fmt::format("{}/bus/pci/devices/{}/local_cpulist", sysfs, kernel_name(pci_bus_id)));
  std::vector<int> cpus;
  // "0-15,32-47"
  for (int first = 0; file >> first;) {
    int last = first;
    if (file.peek() == '-') file.ignore() >> last;
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    if (file.peek() == ',') file.ignore();
  }
  return cpus.empty() ? std::nullopt : std::optional(cpus);
}

std::optional<Finding> examine_nearness(const GpuInfo& gpu, const std::vector<int>& usable,
                                        const std::optional<std::vector<int>>& near) {
  if (!near || usable.empty()) return std::nullopt;
  const bool has_near = std::ranges::any_of(
      usable, [&](int cpu) { return std::ranges::find(*near, cpu) != near->end(); });
  if (has_near) return std::nullopt;
  return Finding{Finding::Severity::Warn,
                 fmt::format("GPU {} is near CPU {}, and ranks may use only CPUs of another NUMA "
                             "node, such as CPU {}",
                             gpu.index, near->front(), usable.front()),
                 "bind ranks to the CPUs near their GPU (numactl --cpunodebind, srun --cpu-bind), "
                 "or choose GPUs near these CPUs: nvidia-smi topo -m"};
}

}  // namespace gradsync::launch
