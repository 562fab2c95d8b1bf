#include "harness/measure/folding.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "harness/base/errors.h"

namespace gradsync::measure {
namespace {

std::string max_map_count() {
  std::string count = "an unknown number";
  std::ifstream("/proc/sys/vm/max_map_count") >> count;
  return count;
}

[[noreturn]] void fail_map(std::size_t bytes, int error) {
  const std::size_t maps = (bytes + FoldedMemory::kWindowBytes - 1) / FoldedMemory::kWindowBytes;
  throw EnvironmentError(
      fmt::format("cannot fold {} bytes, which takes {} memory maps: {}", bytes, maps,
                  std::strerror(error)),
      fmt::format("this process may have {} maps: raise vm.max_map_count, or fold larger tensors "
                  "only",
                  max_map_count()));
}

}  // namespace

FoldedMemory::FoldedMemory() : file_(::memfd_create("gradsync-folded", MFD_CLOEXEC)) {
  if (!file_ || ::ftruncate(file_.get(), kWindowBytes) != 0) {
    throw EnvironmentError(
        fmt::format("cannot make a file of {} bytes in memory for folded tensors: {}", kWindowBytes,
                    std::strerror(errno)),
        "free memory, or allow memfd_create");
  }
}

FoldedMemory::~FoldedMemory() {
  unmap_idle();
}

void* FoldedMemory::map(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (const auto idle = idle_.find(bytes); idle != idle_.end()) {
    void* const data = idle->second;
    idle_.erase(idle);
    return data;
  }
  void* data = map_new(bytes);
  if (data == nullptr && !idle_.empty()) {
    unmap_idle();
    data = map_new(bytes);
  }
  if (data == nullptr) fail_map(bytes, errno);
  return data;
}

void* FoldedMemory::map_new(std::size_t bytes) const {
  void* const range =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return nullptr;
  for (std::size_t offset = 0; offset < bytes; offset += kWindowBytes) {
    void* const window =
        ::mmap(static_cast<std::byte*>(range) + offset, std::min(kWindowBytes, bytes - offset),
               PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE, file_.get(), 0);
    if (window != MAP_FAILED) continue;
    const int error = errno;
    ::munmap(range, bytes);
    errno = error;
    return nullptr;
  }
  return range;
}

void FoldedMemory::give_back(void* data, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  idle_.emplace(bytes, data);
}

void FoldedMemory::unmap_idle() {
  for (const auto& [bytes, data] : idle_) ::munmap(data, bytes);
  idle_.clear();
}

std::optional<std::int64_t> physical_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  constexpr std::int64_t kUnit = 1024;  // "Pss:   1234 kB"
  for (std::string word; file >> word;) {
    std::int64_t count = 0;
    if (word == "Pss:" && file >> count) return count * kUnit;
  }
  return std::nullopt;
}

}  // namespace gradsync::measure
