// NVML of paper: which GPUs the machine has, in the order of the bus and whatever CUDA shows of
// them, and how full. A caller that looks for a function which it does not have (dlsym) finds none,
// as with an older driver.
//
// GRADSYNC_PAPER_THROTTLE=sw_power_cap:900 has it say that this holds every GPU down to 900 MHz.
#include <cuda.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "harness/launch/nvml_api.h"
#include "harness/paper/standins/machine.h"

using namespace gradsync::launch::nvml;
using gradsync::paper::Machine;

namespace {

constexpr Result kInvalidArgument = 2;
constexpr Result kNotSupported = 3;
constexpr Result kNotFound = 6;

// A handle is the number of the GPU, from one on: a null handle is none. An instance has the number
// of its GPU and, from kInstance on, its own place.
constexpr std::uintptr_t kInstance = 1 << 16;

Device handle_of(unsigned gpu, std::uintptr_t instance = 0) {
  return reinterpret_cast<Device>(instance * kInstance + gpu + 1);
}

int number_of(Device device) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(device) % kInstance) - 1;
}

// -1: the GPU itself.
int instance_of(Device device) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(device) / kInstance) - 1;
}

Result write(char* text, unsigned size, const std::string& value) {
  if (value.size() >= size) return kInsufficientSize;
  std::memcpy(text, value.c_str(), value.size() + 1);
  return kSuccess;
}

Result known(Device device) {
  const int gpu = number_of(device);
  return gpu >= 0 && gpu < Machine::here().gpus() ? kSuccess : kInvalidArgument;
}

// What holds clocks down. 0: nothing.
struct Throttle {
  unsigned long long reason = 0;
  unsigned megahertz = 0;
};

Throttle throttle() {
  const char* text = std::getenv("GRADSYNC_PAPER_THROTTLE");
  const std::string_view value = text == nullptr ? "" : text;
  const std::size_t colon = value.find(':');
  Throttle found;
  for (const auto& [bit, word] : kThrottles) {
    if (value.substr(0, colon) == word) found.reason = bit;
  }
  if (colon != std::string_view::npos) {
    found.megahertz = static_cast<unsigned>(std::atoi(text + colon + 1));
  }
  return found;
}

}  // namespace

extern "C" {

Result nvmlInit_v2() {
  return kSuccess;
}
Result nvmlShutdown() {
  return kSuccess;
}

Result nvmlSystemGetDriverVersion(char* text, unsigned size) {
  return write(text, size, "paper");
}

Result nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = CUDA_VERSION;
  return kSuccess;
}

Result nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(Machine::here().gpus());
  return kSuccess;
}

Result nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  *device = handle_of(index);
  return known(*device);
}

Result nvmlDeviceGetHandleByPciBusId_v2(const char* bus, Device* device) {
  for (int gpu = 0; gpu < Machine::here().gpus(); ++gpu) {
    // Its domain has four digits or eight.
    if (!std::string_view(bus).ends_with(Machine::bus_id_of(gpu))) continue;
    *device = handle_of(static_cast<unsigned>(gpu));
    return kSuccess;
  }
  return kNotFound;
}

Result nvmlDeviceGetName(Device device, char* text, unsigned size) {
  if (known(device) != kSuccess) return known(device);
  return write(text, size, Machine::here().model().product);
}

Result nvmlDeviceGetUUID(Device device, char* text, unsigned size) {
  if (known(device) != kSuccess) return known(device);
  return write(text, size, Machine::here().uuid_text(number_of(device), instance_of(device)));
}

Result nvmlDeviceGetPciInfo_v3(Device device, Pci* pci) {
  if (known(device) != kSuccess) return known(device);
  std::memset(pci, 0, sizeof *pci);
  pci->bus = static_cast<unsigned>(number_of(device)) + 1;
  return write(pci->bus_id, sizeof pci->bus_id, "0000" + Machine::bus_id_of(number_of(device)));
}

Result nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  if (known(device) != kSuccess) return known(device);
  memory->total = Machine::here().total_bytes();
  memory->used = Machine::here().used_of(number_of(device));
  memory->free = memory->total - memory->used;
  return kSuccess;
}

Result nvmlDeviceGetMigMode(Device device, unsigned* current, unsigned* pending) {
  *current = *pending = Machine::here().instances() > 0 ? 1 : 0;
  return known(device);
}

Result nvmlDeviceGetMaxMigDeviceCount(Device device, unsigned* count) {
  *count = static_cast<unsigned>(Machine::here().instances());
  return known(device);
}

Result nvmlDeviceGetMigDeviceHandleByIndex(Device device, unsigned place, Device* instance) {
  if (static_cast<int>(place) >= Machine::here().instances()) return kNotFound;
  *instance = handle_of(static_cast<unsigned>(number_of(device)), place + 1);
  return known(device);
}

Result nvmlDeviceGetComputeRunningProcesses(Device, unsigned* count, Process*) {
  *count = 0;
  return kSuccess;
}
Result nvmlDeviceGetComputeRunningProcesses_v3(Device, unsigned* count, Process*) {
  *count = 0;
  return kSuccess;
}

Result nvmlDeviceGetComputeMode(Device, unsigned* mode) {
  *mode = 0;
  return kSuccess;
}

// Clocks and throttling say something about times: there are none unless they are asked for.
Result nvmlDeviceGetCurrentClocksEventReasons(Device device, unsigned long long* reasons) {
  *reasons = throttle().reason;
  return *reasons == 0 ? kNotSupported : known(device);
}
Result nvmlDeviceGetClockInfo(Device device, ClockType, unsigned* megahertz) {
  *megahertz = throttle().megahertz;
  return *megahertz == 0 ? kNotSupported : known(device);
}
Result nvmlDeviceGetMaxClockInfo(Device, ClockType, unsigned*) {
  return kNotSupported;
}

const char* nvmlErrorString(Result result) {
  return result == kSuccess ? "Success" : "Not supported on GPUs of paper";
}

}  // extern "C"
