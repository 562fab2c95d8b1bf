#include "harness/launch/gpus.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "harness/launch/nvml_api.h"

namespace gradsync::launch {

using nlohmann::json;

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

json text(const Nvml& nvml, Text function, Device device) {
  std::array<char, kTextSize> buffer{};
  if (!nvml.works(function, device, buffer.data(), kTextSize)) return nullptr;
  return buffer.data();
}

json driver_version(const Nvml& nvml) {
  std::array<char, kTextSize> buffer{};
  if (!nvml.works(kDriverVersion, buffer.data(), kTextSize)) return nullptr;
  return buffer.data();
}

json clock_hz(const Nvml& nvml, Clock function, Device device, ClockType type) {
  constexpr std::int64_t kMega = 1'000'000;
  unsigned megahertz = 0;
  if (!nvml.works(function, device, type, &megahertz)) return nullptr;
  return megahertz * kMega;
}

json throttle_reasons(const Nvml& nvml, Device device) {
  unsigned long long bits = 0;
  // The newer name first; drivers since 535 have both.
  if (!nvml.works(kEventReasons, device, &bits) && !nvml.works(kThrottleReasons, device, &bits)) {
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
  if (!nvml.works(kComputeMode, device, &mode)) return nullptr;
  return mode < kComputeModes.size() ? json(kComputeModes[mode]) : json(nullptr);
}

json processes(const Nvml& nvml, Device device) {
  unsigned count = 0;
  const auto first = nvml.call(kProcesses, device, &count, nullptr);
  if (first != kSuccess && first != kInsufficientSize) return nullptr;
  constexpr unsigned kNewcomers = 16;
  std::vector<Process> list(count + kNewcomers);
  count = static_cast<unsigned>(list.size());
  if (!nvml.works(kProcesses, device, &count, list.data())) return nullptr;
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
  const bool has_pci = nvml.works(kPci, device, &pci);
  const bool has_memory = nvml.works(kMemory, device, &memory);
  return {
      {"index", index},
      {"name", text(nvml, kName, device)},
      {"uuid", text(nvml, kUuid, device)},
      {"pci_bus_id", has_pci ? json(pci.bus_id) : json(nullptr)},
      {"driver", driver_version(nvml)},
      {"memory_total_bytes", has_memory ? json(memory.total) : json(nullptr)},
      {"memory_used_bytes", has_memory ? json(memory.used) : json(nullptr)},
      {"sm_clock_hz", clock_hz(nvml, kClock, device, kSmClock)},
      {"sm_clock_max_hz", clock_hz(nvml, kMaxClock, device, kSmClock)},
      {"memory_clock_hz", clock_hz(nvml, kClock, device, kMemoryClock)},
      {"memory_clock_max_hz", clock_hz(nvml, kMaxClock, device, kMemoryClock)},
      {"throttle_reasons", throttle_reasons(nvml, device)},
      {"compute_mode", compute_mode(nvml, device)},
      {"processes", processes(nvml, device)},
  };
}

json without(const std::string& reason) {
  return {{"gpus", nullptr}, {"reason", reason}};
}

json probe(const std::string& library) {
  const Nvml nvml(library);
  if (!nvml.obstacle().empty()) return without(nvml.obstacle());
  unsigned count = 0;
  const auto counted = nvml.call(kCount, &count);
  if (counted != kSuccess) return without("NVML counts no GPUs: " + nvml.text_of(counted));
  json gpus = json::array();
  for (unsigned index = 0; index < count; ++index) {
    Device device = nullptr;
    // One that was taken out of service is counted and cannot be asked.
    if (!nvml.works(kHandle, index, &device)) continue;
    gpus.push_back(describe(nvml, index, device));
  }
  return {{"gpus", gpus}, {"reason", nullptr}};
}

}  // namespace
}  // namespace nvml

json probe_gpus(const std::string& library) {
  return nvml::probe(library);
}

}  // namespace gradsync::launch
