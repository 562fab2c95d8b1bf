#include "harness/launch/gpus.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace gradsync::launch {

using nlohmann::json;

namespace {

// --- NVML's C interface, as far as it is used
// -----------------------------------------------------

using Device = struct DeviceHandle*;
using Result = int;
constexpr Result kSuccess = 0;
constexpr Result kInsufficientSize = 7;

struct Pci {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
struct Memory {
  unsigned long long total, free, used;
};
struct Process {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance, compute_instance;
};
constexpr unsigned long long kNotAvailable = ~0ULL;

enum ClockType : int { kSmClock = 1, kMemoryClock = 2 };

constexpr std::array<const char*, 4> kComputeModes{"default", "exclusive_thread", "prohibited",
                                                   "exclusive_process"};

// Bits of nvmlClocksThrottleReasons; idle and settings that an administrator chose are no faults.
constexpr std::array<std::pair<unsigned long long, const char*>, 6> kThrottles{{
    {0x04, "sw_power_cap"},
    {0x08, "hw_slowdown"},
    {0x10, "sync_boost"},
    {0x20, "sw_thermal_slowdown"},
    {0x40, "hw_thermal_slowdown"},
    {0x80, "hw_power_brake_slowdown"},
}};

// The library, and calls into it by name. A function that an old driver lacks counts as failed.
class Nvml {
 public:
  explicit Nvml(const std::string& path) : library_(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) {
      obstacle_ = fmt::format("the NVIDIA driver's library cannot be loaded: {}", ::dlerror());
      return;
    }
    const std::optional<Result> result = call("nvmlInit_v2");
    running_ = result == kSuccess;
    if (!running_) obstacle_ = fmt::format("NVML does not start: {}", text_of(result));
  }
  ~Nvml() {
    if (running_) call("nvmlShutdown");
    if (library_ != nullptr) ::dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // Why nothing can be asked; empty: all is well.
  const std::string& obstacle() const { return obstacle_; }

  // Returns what the function returned; nothing where this driver has no such function.
  template <typename... Arguments>
  std::optional<Result> call(const char* name, Arguments... arguments) const {
    using Function = Result (*)(Arguments...);
    const auto function = reinterpret_cast<Function>(::dlsym(library_, name));
    if (function == nullptr) return std::nullopt;
    return function(arguments...);
  }
  template <typename... Arguments>
  bool works(const char* name, Arguments... arguments) const {
    return call(name, arguments...) == kSuccess;
  }

  std::string text_of(std::optional<Result> result) const {
    if (!result) return "the driver is too old";
    using Describe = const char* (*)(Result);
    const auto describe = reinterpret_cast<Describe>(::dlsym(library_, "nvmlErrorString"));
    return describe == nullptr ? fmt::format("error {}", *result) : describe(*result);
  }

 private:
  void* library_;
  bool running_ = false;
  std::string obstacle_;
};

constexpr unsigned kTextSize = 96;

json text(const Nvml& nvml, const char* function, Device device) {
  std::array<char, kTextSize> buffer{};
  if (!nvml.works(function, device, buffer.data(), kTextSize)) return nullptr;
  return buffer.data();
}

json driver_version(const Nvml& nvml) {
  std::array<char, kTextSize> buffer{};
  if (!nvml.works("nvmlSystemGetDriverVersion", buffer.data(), kTextSize)) return nullptr;
  return buffer.data();
}

json clock_hz(const Nvml& nvml, const char* function, Device device, ClockType type) {
  constexpr std::int64_t kMega = 1'000'000;
  unsigned megahertz = 0;
  if (!nvml.works(function, device, static_cast<int>(type), &megahertz)) return nullptr;
  return megahertz * kMega;
}

json throttle_reasons(const Nvml& nvml, Device device) {
  unsigned long long bits = 0;
  // The newer name first; drivers since 535 have both.
  if (!nvml.works("nvmlDeviceGetCurrentClocksEventReasons", device, &bits) &&
      !nvml.works("nvmlDeviceGetCurrentClocksThrottleReasons", device, &bits)) {
    return nullptr;
  }
  json words = json::array();
  for (const auto& [bit, word] : kThrottles) {
    if ((bits & bit) != 0) words.push_back(word);
  }
  return words;
}

json compute_mode(const Nvml& nvml, Device device) {
  unsigned mode = 0;
  if (!nvml.works("nvmlDeviceGetComputeMode", device, &mode)) return nullptr;
  return mode < kComputeModes.size() ? json(kComputeModes[mode]) : json(nullptr);
}

json processes(const Nvml& nvml, Device device) {
  constexpr const char* kFunction = "nvmlDeviceGetComputeRunningProcesses_v3";
  unsigned count = 0;
  const auto first = nvml.call(kFunction, device, &count, static_cast<Process*>(nullptr));
  if (first != kSuccess && first != kInsufficientSize) return nullptr;
  constexpr unsigned kNewcomers = 16;
  std::vector<Process> list(count + kNewcomers);
  count = static_cast<unsigned>(list.size());
  if (!nvml.works(kFunction, device, &count, list.data())) return nullptr;
  json found = json::array();
  for (unsigned i = 0; i < count; ++i) {
    const bool known = list[i].used_memory != kNotAvailable;
    found.push_back({{"pid", list[i].pid},
                     {"memory_bytes", known ? json(list[i].used_memory) : json(nullptr)}});
  }
  return found;
}

json describe(const Nvml& nvml, unsigned index, Device device) {
  Pci pci{};
  Memory memory{};
  const bool has_pci = nvml.works("nvmlDeviceGetPciInfo_v3", device, &pci);
  const bool has_memory = nvml.works("nvmlDeviceGetMemoryInfo", device, &memory);
  return {
      {"index", index},
      {"name", text(nvml, "nvmlDeviceGetName", device)},
      {"uuid", text(nvml, "nvmlDeviceGetUUID", device)},
      {"pci_bus_id", has_pci ? json(pci.bus_id) : json(nullptr)},
      {"driver", driver_version(nvml)},
      {"memory_total_bytes", has_memory ? json(memory.total) : json(nullptr)},
      {"memory_used_bytes", has_memory ? json(memory.used) : json(nullptr)},
      {"sm_clock_hz", clock_hz(nvml, "nvmlDeviceGetClockInfo", device, kSmClock)},
      {"sm_clock_max_hz", clock_hz(nvml, "nvmlDeviceGetMaxClockInfo", device, kSmClock)},
      {"memory_clock_hz", clock_hz(nvml, "nvmlDeviceGetClockInfo", device, kMemoryClock)},
      {"memory_clock_max_hz", clock_hz(nvml, "nvmlDeviceGetMaxClockInfo", device, kMemoryClock)},
      {"throttle_reasons", throttle_reasons(nvml, device)},
      {"compute_mode", compute_mode(nvml, device)},
      {"processes", processes(nvml, device)},
  };
}

json without(const std::string& reason) {
  return {{"gpus", nullptr}, {"reason", reason}};
}

}  // namespace

json probe_gpus(const std::string& library) {
  const Nvml nvml(library);
  if (!nvml.obstacle().empty()) return without(nvml.obstacle());
  unsigned count = 0;
  const auto counted = nvml.call("nvmlDeviceGetCount_v2", &count);
  if (counted != kSuccess) return without("NVML counts no GPUs: " + nvml.text_of(counted));
  json gpus = json::array();
  for (unsigned index = 0; index < count; ++index) {
    Device device = nullptr;
    // One that was taken out of service is counted and cannot be asked.
    if (!nvml.works("nvmlDeviceGetHandleByIndex_v2", index, &device)) continue;
    gpus.push_back(describe(nvml, index, device));
  }
  return {{"gpus", gpus}, {"reason", nullptr}};
}

}  // namespace gradsync::launch
