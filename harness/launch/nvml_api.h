// What is called of NVML, the NVIDIA driver's management library, by its own names and layouts.
//
// Declared by hand rather than taken from nvml.h: most machines that build this have no CUDA
// toolkit, and so all compile and test the same code. nvml_api_check.cpp holds every line here
// against the nvml.h of CUDA 12 and 13.
#pragma once

#include <array>
#include <utility>

namespace gradsync::launch::nvml {

using Device = struct DeviceHandle*;
using Result = int;
inline constexpr Result kSuccess = 0;
inline constexpr Result kInsufficientSize = 7;

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
inline constexpr unsigned long long kNotAvailable = ~0ULL;

enum ClockType : unsigned { kSmClock = 1, kMemoryClock = 2 };

inline constexpr std::array<const char*, 4> kComputeModes{"default", "exclusive_thread",
                                                          "prohibited", "exclusive_process"};

// Bits of nvmlClocksEventReasons; idle and settings that an administrator chose are no faults.
inline constexpr std::array<std::pair<unsigned long long, const char*>, 6> kThrottles{{
    {0x04, "sw_power_cap"},
    {0x08, "hw_slowdown"},
    {0x10, "sync_boost"},
    {0x20, "sw_thermal_slowdown"},
    {0x40, "hw_thermal_slowdown"},
    {0x80, "hw_power_brake_slowdown"},
}};

inline constexpr unsigned kTextSize = 96;  // of the longest text: a name, a UUID, a version

// A function of the library, which returns a Result.
template <typename... Parameters>
struct Function {
  const char* name;
};
using Text = Function<Device, char*, unsigned>;
using Clock = Function<Device, ClockType, unsigned*>;
using Bits = Function<Device, unsigned long long*>;

inline constexpr Function<> kInit{"nvmlInit_v2"};
inline constexpr Function<> kShutdown{"nvmlShutdown"};
inline constexpr Function<char*, unsigned> kDriverVersion{"nvmlSystemGetDriverVersion"};
inline constexpr Function<unsigned*> kCount{"nvmlDeviceGetCount_v2"};
inline constexpr Function<unsigned, Device*> kHandle{"nvmlDeviceGetHandleByIndex_v2"};
inline constexpr Text kName{"nvmlDeviceGetName"};
inline constexpr Text kUuid{"nvmlDeviceGetUUID"};
inline constexpr Function<Device, Pci*> kPci{"nvmlDeviceGetPciInfo_v3"};
inline constexpr Function<Device, Memory*> kMemory{"nvmlDeviceGetMemoryInfo"};
inline constexpr Clock kClock{"nvmlDeviceGetClockInfo"};
inline constexpr Clock kMaxClock{"nvmlDeviceGetMaxClockInfo"};
inline constexpr Bits kEventReasons{"nvmlDeviceGetCurrentClocksEventReasons"};
inline constexpr Bits kThrottleReasons{"nvmlDeviceGetCurrentClocksThrottleReasons"};
inline constexpr Function<Device, unsigned*> kComputeMode{"nvmlDeviceGetComputeMode"};
// Whether a GPU is divided into instances (MIG): now, and after the next reset.
inline constexpr Function<Device, unsigned*, unsigned*> kMigMode{"nvmlDeviceGetMigMode"};
inline constexpr Function<Device, unsigned*> kMostInstances{"nvmlDeviceGetMaxMigDeviceCount"};
inline constexpr Function<Device, unsigned, Device*> kInstance{
    "nvmlDeviceGetMigDeviceHandleByIndex"};
inline constexpr Function<Device, unsigned*, Process*> kProcesses{
    "nvmlDeviceGetComputeRunningProcesses_v3"};

// The one that returns no Result.
using ErrorString = const char*(Result);
inline constexpr const char* kErrorString = "nvmlErrorString";

}  // namespace gradsync::launch::nvml
