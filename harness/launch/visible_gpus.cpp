#include "harness/launch/visible_gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <sstream>

namespace gradsync::launch {
namespace {

std::optional<std::string> variable(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> names_in(const std::string& list) {
  std::vector<std::string> names;
  std::istringstream text(list);
  for (std::string name; std::getline(text, name, ',');) {
    std::erase(name, ' ');
    names.push_back(name);
  }
  return names;
}

// "GPU-5d3" or "MIG-8a1", of which the beginning is enough, or "MIG-GPU-5d3.../1/0" of old drivers.
bool is_named(const GpuInfo& gpu, const std::string& name) {
  const auto begins = [](const std::string& uuid, const std::string& beginning) {
    return !beginning.empty() && uuid.starts_with(beginning);
  };
  if (begins(gpu.uuid.value_or(""), name)) return true;
  if (name.starts_with("MIG-GPU-")) return gpu.uuid == name.substr(4, name.find('/') - 4);
  const auto instances = gpu.mig_instances.value_or(std::vector<std::string>{});
  return std::ranges::any_of(instances, [&](const auto& each) { return begins(each, name); });
}

bool is_uuid(const std::string& name) {
  return name.starts_with("GPU-") || name.starts_with("MIG-");
}

const GpuInfo* named(const std::vector<GpuInfo>& gpus, const std::string& name) {
  if (is_uuid(name)) {
    const auto found =
        std::ranges::find_if(gpus, [&](const GpuInfo& gpu) { return is_named(gpu, name); });
    return found == gpus.end() ? nullptr : &*found;
  }
  std::size_t number = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, number);
  const bool is_number = error == std::errc() && stop == end;
  return is_number && number < gpus.size() ? &gpus[number] : nullptr;
}

}  // namespace

std::vector<GpuInfo> gpus_of_ranks(const std::vector<GpuInfo>& gpus, const Environment& environment,
                                   int ranks) {
  if (doubt_of_order(gpus, environment)) return gpus;
  std::vector<GpuInfo> visible = gpus;
  if (const auto list = variable(environment, "CUDA_VISIBLE_DEVICES")) {
    visible.clear();
    for (const std::string& name : names_in(*list)) {
      const GpuInfo* gpu = named(gpus, name);
      if (gpu == nullptr) break;  // what stands behind one that is none does not count
      visible.push_back(*gpu);
    }
  }
  if (std::ssize(visible) > ranks) visible.resize(static_cast<std::size_t>(ranks));
  return visible;
}

std::optional<Finding> find_rocm(const std::string& devices) {
  std::error_code error;
  if (!std::filesystem::exists(devices + "/kfd", error)) return std::nullopt;
  return Finding{
      Finding::Severity::Warn,
      fmt::format("AMD's GPUs are here ({}/kfd): ROCm is not supported by --device cuda", devices),
      "use --device cpu --backend gloo, or a machine with NVIDIA's GPUs; gradsync watch "
      "counts RCCL's calls (librccl.so.1), and was not tried there"};
}

std::optional<Finding> doubt_of_order(const std::vector<GpuInfo>& gpus,
                                      const Environment& environment) {
  const bool are_alike =
      std::ranges::all_of(gpus, [&](const GpuInfo& gpu) { return gpu.name == gpus.front().name; });
  if (are_alike || variable(environment, "CUDA_DEVICE_ORDER") == "PCI_BUS_ID") return std::nullopt;
  const auto list = variable(environment, "CUDA_VISIBLE_DEVICES");
  if (list && std::ranges::all_of(names_in(*list), is_uuid)) return std::nullopt;
  return Finding{Finding::Severity::Warn,
                 "GPUs are of several models, and CUDA counts the fastest first: its GPU 0 may be "
                 "another one than nvidia-smi's",
                 "set CUDA_DEVICE_ORDER=PCI_BUS_ID, or choose by uuid (nvidia-smi -L) in "
                 "CUDA_VISIBLE_DEVICES"};
}

}  // namespace gradsync::launch
