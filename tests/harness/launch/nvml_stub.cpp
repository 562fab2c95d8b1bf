// A libnvidia-ml.so.1 whose GPUs a test chooses: STUB_GPUS says how many, STUB_BUSY which process
// computes on the first, STUB_THROTTLE which reasons hold its clocks down, STUB_INIT what
// nvmlInit_v2 returns, STUB_MIG how many instances the first is divided into, plus one. Written
// from NVML's API reference, apart from the code that it stands in for.
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

unsigned number(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : static_cast<unsigned>(std::strtoul(text, nullptr, 0));
}

// Handles are the index plus one, so that none is null.
unsigned index_of(void* device) {
  return static_cast<unsigned>(reinterpret_cast<std::size_t>(device)) - 1;
}

constexpr int kSuccess = 0;
constexpr int kNotSupported = 3;
constexpr int kInsufficientSize = 7;

}  // namespace

extern "C" {

int nvmlInit_v2() {
  return static_cast<int>(number("STUB_INIT"));
}
int nvmlShutdown() {
  return kSuccess;
}
const char* nvmlErrorString(int result) {
  return result == 9 ? "Driver Not Loaded" : "Some Error";
}
int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  std::snprintf(version, length, "580.65.06");
  return kSuccess;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = number("STUB_GPUS");
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = reinterpret_cast<void*>(static_cast<std::size_t>(index) + 1);
  return kSuccess;
}
int nvmlDeviceGetName(void*, char* name, unsigned length) {
  std::snprintf(name, length, "NVIDIA Stub 80GB");
  return kSuccess;
}
// Handles of instances of the first GPU begin at 100.
int nvmlDeviceGetUUID(void* device, char* uuid, unsigned length) {
  const unsigned index = index_of(device);
  std::snprintf(uuid, length, index < 100 ? "GPU-%u" : "MIG-%u", index);
  return kSuccess;
}
int nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
  if (index_of(device) != 0) return kNotSupported;
  *current = *pending = number("STUB_MIG") > 0 ? 1 : 0;
  return kSuccess;
}
int nvmlDeviceGetMaxMigDeviceCount(void*, unsigned* count) {
  *count = 7;
  return kSuccess;
}
// The first place is empty, as where an instance was destroyed.
int nvmlDeviceGetMigDeviceHandleByIndex(void*, unsigned place, void** device) {
  constexpr int kNotFound = 6;
  if (place == 0 || place >= number("STUB_MIG")) return kNotFound;
  *device = reinterpret_cast<void*>(static_cast<std::size_t>(100) + place);
  return kSuccess;
}

struct nvmlPciInfo_t {
  char busIdLegacy[16];
  unsigned int domain;
  unsigned int bus;
  unsigned int device;
  unsigned int pciDeviceId;
  unsigned int pciSubSystemId;
  char busId[32];
};
int nvmlDeviceGetPciInfo_v3(void* device, nvmlPciInfo_t* pci) {
  std::memset(pci, 0x55, sizeof *pci);
  std::snprintf(pci->busId, sizeof pci->busId, "00000000:0%u:00.0", index_of(device) + 1);
  return kSuccess;
}

struct nvmlMemory_t {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
int nvmlDeviceGetMemoryInfo(void*, nvmlMemory_t* memory) {
  *memory = {80ULL << 30, 79ULL << 30, 1ULL << 30};
  return kSuccess;
}

int nvmlDeviceGetClockInfo(void*, int type, unsigned* megahertz) {
  *megahertz = type == 1 ? 1200 : type == 2 ? 2000 : 1;
  return kSuccess;
}
// The second GPU does not tell.
int nvmlDeviceGetMaxClockInfo(void* device, int type, unsigned* megahertz) {
  if (index_of(device) == 1) return kNotSupported;
  *megahertz = type == 1 ? 1980 : type == 2 ? 2619 : 1;
  return kSuccess;
}
// Only the older of its two names: as drivers before 535.
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  *reasons = 0x1 | (index_of(device) == 0 ? number("STUB_THROTTLE") : 0);  // 0x1: idle
  return kSuccess;
}
int nvmlDeviceGetComputeMode(void*, unsigned* mode) {
  *mode = number("STUB_MODE");
  return kSuccess;
}

struct nvmlProcessInfo_t {
  unsigned int pid;
  unsigned long long usedGpuMemory;
  unsigned int gpuInstanceId;
  unsigned int computeInstanceId;
};
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count,
                                            nvmlProcessInfo_t* infos) {
  const unsigned pid = index_of(device) == 0 ? number("STUB_BUSY") : 0;
  const unsigned found = pid == 0 ? 0 : 2;
  if (*count < found) {
    *count = found;
    return kInsufficientSize;
  }
  *count = found;
  if (found == 0) return kSuccess;
  infos[0] = {pid, 3ULL << 29, 0, 0};
  infos[1] = {pid + 1, ~0ULL, 0, 0};  // of another user: its memory is not told
  return kSuccess;
}

}  // extern "C"
