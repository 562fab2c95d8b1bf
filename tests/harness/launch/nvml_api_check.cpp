// Holds harness/launch/nvml_api.h against the real nvml.h, of which no other file knows: compiling
// this is the test. It runs wherever CMake finds that header, and nightly with those of CUDA 12
// and 13.
#include <nvml.h>

#include <cstddef>
#include <string_view>
#include <type_traits>

#include "harness/launch/nvml_api.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace gradsync::launch::nvml {
namespace {

// Which of our types stands for which of theirs; each pair is compared below.
template <typename Ours, typename Theirs>
constexpr bool kStandsFor = std::is_same_v<Ours, Theirs>;
template <typename Ours, typename Theirs>
constexpr bool kStandsFor<Ours*, Theirs*> = kStandsFor<Ours, Theirs>;
template <>
constexpr bool kStandsFor<DeviceHandle, std::remove_pointer_t<nvmlDevice_t>> = true;
template <>
constexpr bool kStandsFor<ClockType, nvmlClockType_t> =
    std::is_same_v<std::underlying_type_t<ClockType>, std::underlying_type_t<nvmlClockType_t>>;
template <>
constexpr bool kStandsFor<unsigned, nvmlComputeMode_t> =
    std::is_same_v<unsigned, std::underlying_type_t<nvmlComputeMode_t>>;
template <>
constexpr bool kStandsFor<Pci, nvmlPciInfo_t> = sizeof(Pci) == sizeof(nvmlPciInfo_t);
template <>
constexpr bool kStandsFor<Memory, nvmlMemory_t> = sizeof(Memory) == sizeof(nvmlMemory_t);
template <>
constexpr bool kStandsFor<Process, nvmlProcessInfo_t> = sizeof(Process) ==
                                                        sizeof(nvmlProcessInfo_t);

#define SAME_FIELD(ours, field, theirs, their_field)                         \
  static_assert(offsetof(ours, field) == offsetof(theirs, their_field));     \
  static_assert(kStandsFor<std::remove_all_extents_t<decltype(ours::field)>, \
                           std::remove_all_extents_t<decltype(theirs::their_field)>>)

SAME_FIELD(Pci, bus_id_legacy, nvmlPciInfo_t, busIdLegacy);
SAME_FIELD(Pci, domain, nvmlPciInfo_t, domain);
SAME_FIELD(Pci, bus, nvmlPciInfo_t, bus);
SAME_FIELD(Pci, device, nvmlPciInfo_t, device);
SAME_FIELD(Pci, pci_device_id, nvmlPciInfo_t, pciDeviceId);
SAME_FIELD(Pci, pci_subsystem_id, nvmlPciInfo_t, pciSubSystemId);
SAME_FIELD(Pci, bus_id, nvmlPciInfo_t, busId);
SAME_FIELD(Memory, total, nvmlMemory_t, total);
SAME_FIELD(Memory, free, nvmlMemory_t, free);
SAME_FIELD(Memory, used, nvmlMemory_t, used);
SAME_FIELD(Process, pid, nvmlProcessInfo_t, pid);
SAME_FIELD(Process, used_memory, nvmlProcessInfo_t, usedGpuMemory);
SAME_FIELD(Process, gpu_instance, nvmlProcessInfo_t, gpuInstanceId);
SAME_FIELD(Process, compute_instance, nvmlProcessInfo_t, computeInstanceId);

template <typename Ours, typename Theirs>
constexpr bool kCalledAlike = false;
template <typename... Ours, typename... Theirs>
requires(sizeof...(Ours) == sizeof...(Theirs)) constexpr bool kCalledAlike<
    const Function<Ours...>, nvmlReturn_t(Theirs...)> = (kStandsFor<Ours, Theirs> && ...);

#define SAME_FUNCTION(ours, theirs)                      \
  static_assert(std::string_view(ours.name) == #theirs); \
  static_assert(kCalledAlike<decltype(ours), decltype(theirs)>)

SAME_FUNCTION(kInit, nvmlInit_v2);
SAME_FUNCTION(kShutdown, nvmlShutdown);
SAME_FUNCTION(kDriverVersion, nvmlSystemGetDriverVersion);
SAME_FUNCTION(kCount, nvmlDeviceGetCount_v2);
SAME_FUNCTION(kHandle, nvmlDeviceGetHandleByIndex_v2);
SAME_FUNCTION(kName, nvmlDeviceGetName);
SAME_FUNCTION(kUuid, nvmlDeviceGetUUID);
SAME_FUNCTION(kPci, nvmlDeviceGetPciInfo_v3);
SAME_FUNCTION(kMemory, nvmlDeviceGetMemoryInfo);
SAME_FUNCTION(kClock, nvmlDeviceGetClockInfo);
SAME_FUNCTION(kMaxClock, nvmlDeviceGetMaxClockInfo);
SAME_FUNCTION(kEventReasons, nvmlDeviceGetCurrentClocksEventReasons);
SAME_FUNCTION(kThrottleReasons, nvmlDeviceGetCurrentClocksThrottleReasons);
SAME_FUNCTION(kComputeMode, nvmlDeviceGetComputeMode);
SAME_FUNCTION(kMigMode, nvmlDeviceGetMigMode);
SAME_FUNCTION(kMostInstances, nvmlDeviceGetMaxMigDeviceCount);
SAME_FUNCTION(kInstance, nvmlDeviceGetMigDeviceHandleByIndex);
SAME_FUNCTION(kProcesses, nvmlDeviceGetComputeRunningProcesses_v3);
static_assert(std::is_same_v<decltype(nvmlErrorString), const char*(nvmlReturn_t)>);

static_assert(sizeof(Result) == sizeof(nvmlReturn_t));
static_assert(kSuccess == NVML_SUCCESS);
static_assert(kInsufficientSize == NVML_ERROR_INSUFFICIENT_SIZE);
static_assert(kNotAvailable == static_cast<unsigned long long>(NVML_VALUE_NOT_AVAILABLE));
static_assert(unsigned{kSmClock} == NVML_CLOCK_SM && unsigned{kMemoryClock} == NVML_CLOCK_MEM);
static_assert(kTextSize >= NVML_DEVICE_NAME_V2_BUFFER_SIZE);
static_assert(kTextSize >= NVML_DEVICE_UUID_V2_BUFFER_SIZE);
static_assert(kTextSize >= NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE);

constexpr bool is_mode(unsigned mode, std::string_view word) {
  return kComputeModes[mode] == word;
}
static_assert(kComputeModes.size() == NVML_COMPUTEMODE_COUNT);
static_assert(is_mode(NVML_COMPUTEMODE_DEFAULT, "default"));
static_assert(is_mode(NVML_COMPUTEMODE_EXCLUSIVE_THREAD, "exclusive_thread"));
static_assert(is_mode(NVML_COMPUTEMODE_PROHIBITED, "prohibited"));
static_assert(is_mode(NVML_COMPUTEMODE_EXCLUSIVE_PROCESS, "exclusive_process"));

constexpr bool is_throttle(std::size_t index, unsigned long long bit, std::string_view word) {
  return kThrottles[index].first == bit && kThrottles[index].second == word;
}
static_assert(kThrottles.size() == 6);
static_assert(is_throttle(0, nvmlClocksEventReasonSwPowerCap, "sw_power_cap"));
static_assert(is_throttle(1, nvmlClocksThrottleReasonHwSlowdown, "hw_slowdown"));
static_assert(is_throttle(2, nvmlClocksEventReasonSyncBoost, "sync_boost"));
static_assert(is_throttle(3, nvmlClocksEventReasonSwThermalSlowdown, "sw_thermal_slowdown"));
static_assert(is_throttle(4, nvmlClocksThrottleReasonHwThermalSlowdown, "hw_thermal_slowdown"));
static_assert(is_throttle(5, nvmlClocksThrottleReasonHwPowerBrakeSlowdown,
                          "hw_power_brake_slowdown"));

}  // namespace
}  // namespace gradsync::launch::nvml
