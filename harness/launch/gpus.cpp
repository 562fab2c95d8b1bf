#include "harness/launch/gpus.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <type_traits>

#include "harness/base/fields.h"
#include "harness/launch/nvml_api.h"

namespace gradsync::launch {

namespace nvml {
namespace {

// The library, and calls into it by name. A function that an old driver lacks counts as failed.
class Nvml {
 public:
  explicit Nvml(const std::string& path) : library_(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) {
      obstacle_ = fmt::format("the NVIDIA driver's library cannot be loaded: {}", ::dlerror());
      return;
    }
    const std::optional<Result> result = call(kInit);
    running_ = result == kSuccess;
    if (!running_) obstacle_ = fmt::format("NVML does not start: {}", text_of(result));
  }
  ~Nvml() {
    if (running_) call(kShutdown);
    if (library_ != nullptr) ::dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // Why nothing can be asked; empty: all is well.
  const std::string& obstacle() const { return obstacle_; }

  // Returns what the function returned; nothing where this driver has no such function.
  template <typename... Parameters>
  std::optional<Result> call(Function<Parameters...> function,
                             std::type_identity_t<Parameters>... arguments) const {
    const auto found =
        reinterpret_cast<Result (*)(Parameters...)>(::dlsym(library_, function.name));
    if (found == nullptr) return std::nullopt;
    return found(arguments...);
  }
  template <typename... Parameters>
  bool works(Function<Parameters...> function,
             std::type_identity_t<Parameters>... arguments) const {
    return call(function, arguments...) == kSuccess;
  }

  std::string text_of(std::optional<Result> result) const {
    if (!result) return "the driver is too old";
    const auto describe = reinterpret_cast<ErrorString*>(::dlsym(library_, kErrorString));
    return describe == nullptr ? fmt::format("error {}", *result) : describe(*result);
  }

 private:
  void* library_;
  bool running_ = false;
  std::string obstacle_;
};

std::optional<std::string> text(const Nvml& nvml, Text function, Device device) {
  std::array<char, kTextSize> buffer{};
  if (!nvml.works(function, device, buffer.data(), kTextSize)) return std::nullopt;
  return buffer.data();
}

std::optional<std::string> driver_version(const Nvml& nvml) {
  std::array<char, kTextSize> buffer{};
  if (!nvml.works(kDriverVersion, buffer.data(), kTextSize)) return std::nullopt;
  return buffer.data();
}

std::optional<std::int64_t> clock_hz(const Nvml& nvml, Clock function, Device device,
                                     ClockType type) {
  constexpr std::int64_t kMega = 1'000'000;
  unsigned megahertz = 0;
  if (!nvml.works(function, device, type, &megahertz)) return std::nullopt;
  return megahertz * kMega;
}

std::optional<std::vector<std::string>> throttle_reasons(const Nvml& nvml, Device device) {
  unsigned long long bits = 0;
  // The newer name first; drivers since 535 have both.
  if (!nvml.works(kEventReasons, device, &bits) && !nvml.works(kThrottleReasons, device, &bits)) {
    return std::nullopt;
  }
  std::vector<std::string> words;
  for (const auto& [bit, word] : kThrottles) {
    if ((bits & bit) != 0) words.emplace_back(word);
  }
  return words;
}

std::optional<std::string> compute_mode(const Nvml& nvml, Device device) {
  unsigned mode = 0;
  if (!nvml.works(kComputeMode, device, &mode) || mode >= kComputeModes.size()) return std::nullopt;
  return kComputeModes[mode];
}

std::optional<std::vector<GpuProcess>> processes(const Nvml& nvml, Device device) {
  unsigned count = 0;
  const auto first = nvml.call(kProcesses, device, &count, nullptr);
  if (first != kSuccess && first != kInsufficientSize) return std::nullopt;
  constexpr unsigned kNewcomers = 16;
  std::vector<Process> list(count + kNewcomers);
  count = static_cast<unsigned>(list.size());
  if (!nvml.works(kProcesses, device, &count, list.data())) return std::nullopt;
  std::vector<GpuProcess> found;
  for (unsigned i = 0; i < count; ++i) {
    GpuProcess& process = found.emplace_back();
    process.pid = list[i].pid;
    if (list[i].used_memory != kNotAvailable) process.memory_bytes = list[i].used_memory;
  }
  return found;
}

// A place that holds no instance cannot be asked.
std::optional<std::vector<std::string>> mig_instances(const Nvml& nvml, Device device) {
  unsigned is_on = 0;
  unsigned pending = 0;
  if (!nvml.works(kMigMode, device, &is_on, &pending) || is_on == 0) return std::nullopt;
  unsigned most = 0;
  if (!nvml.works(kMostInstances, device, &most)) return std::nullopt;
  std::vector<std::string> uuids;
  for (unsigned place = 0; place < most; ++place) {
    Device instance = nullptr;
    if (!nvml.works(kInstance, device, place, &instance)) continue;
    if (const auto uuid = text(nvml, kUuid, instance)) uuids.push_back(*uuid);
  }
  return uuids;
}

GpuInfo describe(const Nvml& nvml, unsigned index, Device device) {
  GpuInfo gpu;
  gpu.index = index;
  gpu.name = text(nvml, kName, device);
  gpu.uuid = text(nvml, kUuid, device);
  Pci pci{};
  if (nvml.works(kPci, device, &pci)) gpu.pci_bus_id = pci.bus_id;
  gpu.driver = driver_version(nvml);
  Memory memory{};
  if (nvml.works(kMemory, device, &memory)) {
    gpu.memory_total_bytes = memory.total;
    gpu.memory_used_bytes = memory.used;
  }
  gpu.sm_clock_hz = clock_hz(nvml, kClock, device, kSmClock);
  gpu.sm_clock_max_hz = clock_hz(nvml, kMaxClock, device, kSmClock);
  gpu.memory_clock_hz = clock_hz(nvml, kClock, device, kMemoryClock);
  gpu.memory_clock_max_hz = clock_hz(nvml, kMaxClock, device, kMemoryClock);
  gpu.throttle_reasons = throttle_reasons(nvml, device);
  gpu.compute_mode = compute_mode(nvml, device);
  gpu.processes = processes(nvml, device);
  gpu.mig_instances = mig_instances(nvml, device);
  return gpu;
}

Known<std::vector<GpuInfo>> probe(const std::string& library) {
  const Nvml nvml(library);
  if (!nvml.obstacle().empty()) return Unknown{nvml.obstacle()};
  unsigned count = 0;
  const auto counted = nvml.call(kCount, &count);
  if (counted != kSuccess) return Unknown{"NVML counts no GPUs: " + nvml.text_of(counted)};
  std::vector<GpuInfo> gpus;
  for (unsigned index = 0; index < count; ++index) {
    Device device = nullptr;
    // One that was taken out of service is counted and cannot be asked.
    if (!nvml.works(kHandle, index, &device)) continue;
    gpus.push_back(describe(nvml, index, device));
  }
  return gpus;
}

}  // namespace
}  // namespace nvml

GRADSYNC_FIELDS_OF(GpuProcess, pid, memory_bytes)
GRADSYNC_FIELDS_OF(GpuInfo, index, name, uuid, pci_bus_id, driver, memory_total_bytes,
                   memory_used_bytes, sm_clock_hz, sm_clock_max_hz, memory_clock_hz,
                   memory_clock_max_hz, throttle_reasons, compute_mode, processes, mig_instances)

void to_json(nlohmann::json& out, const GpuInfo& gpu) {
  out = write_fields(gpu);
}

Known<std::vector<GpuInfo>> probe_gpus(const std::string& library) {
  return nvml::probe(library);
}

}  // namespace gradsync::launch
