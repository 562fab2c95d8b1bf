#include "harness/fit/recorder/record_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cstring>

namespace gradsync::fit {
namespace {

constexpr std::size_t kChunkBytes = sizeof(AllocationRecord) * kRecordsPerChunk;
constexpr std::int64_t kNsPerS = 1'000'000'000;

std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kNsPerS + now.tv_nsec;
}

void* map(int fd, std::int64_t chunk) {
  const auto offset = static_cast<off_t>(chunk * static_cast<std::int64_t>(kChunkBytes));
  if (::posix_fallocate(fd, offset, kChunkBytes) != 0) return nullptr;
  void* mapped = ::mmap(nullptr, kChunkBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
  return mapped == MAP_FAILED ? nullptr : mapped;
}

}  // namespace

bool RecordFile::open(const std::string& path) {
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd_ < 0) return false;
  // The first chunk stays mapped for the header.
  header_ = static_cast<AllocationHeader*>(map(fd_, 0));
  if (header_ == nullptr) return false;
  chunk_ = reinterpret_cast<AllocationRecord*>(header_);
  mapped_ = 0;
  header_->pid = ::getpid();
  std::memcpy(header_->magic, kAllocationMagic, sizeof(kAllocationMagic));
  return true;
}

bool RecordFile::map_chunk(std::int64_t index) {
  if (index == mapped_) return chunk_ != nullptr;
  if (mapped_ > 0 && chunk_ != nullptr) ::munmap(chunk_, kChunkBytes);
  chunk_ = static_cast<AllocationRecord*>(map(fd_, index));
  mapped_ = index;
  return chunk_ != nullptr;
}

void RecordFile::append(AllocationRecord record) {
  if (header_ == nullptr) return;
  const std::int64_t place = header_->records + 1;  // the header is as large as a record
  if (header_->records < kMostRecords && map_chunk(place / kRecordsPerChunk)) {
    record.time_ns = now_ns();
    chunk_[place % kRecordsPerChunk] = record;
  }
  ++header_->records;
}

}  // namespace gradsync::fit
