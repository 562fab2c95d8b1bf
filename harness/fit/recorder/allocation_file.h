// The file in which a process keeps what torch's caching allocator did: a header, then records of
// one size, in the order in which they happened. Written by allocation_recorder.cpp inside the job,
// read by read_allocations.cpp. Both are of one machine: numbers are in its own byte order.
//
// Beside it lies a text file of lines, with tabs between fields, in which names stand:
//   site    NUMBER  MODULE  LINE  FUNCTION  FILE   where a block was asked for; MODULE: an address
//   module  MODULE  CLASS   NAME                   of a torch.nn.Module, as its model calls it
//   oom     TEXT                                   torch's message; "\n" stands for a new line
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace gradsync::fit {

inline constexpr char kAllocationMagic[8] = {'G', 'S', 'A', 'L', 'L', 'O', 'C', '1'};
inline constexpr const char* kAllocationPrefix = "allocations-";  // then the process id
inline constexpr const char* kAllocationSuffix = ".records";
inline constexpr const char* kNamesSuffix = ".names";

// The variable that names the library which records, in every process of a job.
inline constexpr const char* kRecorderVariable = "GRADSYNC_WATCH_ALLOCATIONS";

enum class Action : std::uint8_t {
  Alloc,          // `address` is a block of `size` bytes, as they were asked for
  Free,           // the job lets go of `address`
  FreeCompleted,  // the allocator may give it to others: no stream needs it any more
  SegmentAlloc,   // the allocator took `size` bytes from the GPU
  SegmentFree,
  SegmentMap,  // the same for expandable segments
  SegmentUnmap,
  OutOfMemory,  // `size` bytes could not be had; `address`: bytes that the GPU had left
  Label,        // the block that holds `address` is a `Holds`
  EmptyCache,   // the job called torch.cuda.empty_cache()
  End,          // the process ends
};

// What a labelled block holds.
enum class Holds : std::uint8_t { Parameter, Gradient, OptimizerState, Workspace };

struct AllocationRecord {
  Action action;
  Holds holds;  // of a Label
  std::uint16_t device;
  // An Alloc's number of the text file; 0: no Python ran on the thread. A FreeCompleted has here
  // how many events the allocator asked for first; 0: no other stream had used the block.
  std::uint32_t site;
  std::uint64_t address;
  std::uint64_t size;
  std::uint64_t stream;
  std::uint64_t pool;  // of a CUDA graph or a torch.cuda.MemPool; 0: the allocator's own
  // As torch's statistics have it when the record is made: of what an Alloc itself adds to it, the
  // next record tells first.
  std::int64_t peak_allocated;
  std::int64_t peak_reserved;
  std::int64_t time_ns;  // of CLOCK_MONOTONIC
};
static_assert(sizeof(AllocationRecord) == 64);

struct AllocationHeader {
  char magic[8];
  std::int64_t pid;
  std::int64_t records;  // that were made; more than kMostRecords: the rest is lost
  char reserved[40];
};
static_assert(sizeof(AllocationHeader) == sizeof(AllocationRecord));

inline constexpr std::int64_t kRecordsPerChunk = 16384;  // 1 MiB
inline constexpr std::int64_t kMostRecords = 4'000'000;  // 256 MB

// Reads what there is of a file. False: it is none of the recorder's.
inline bool read_file(const std::string& path, AllocationHeader& header,
                      std::vector<AllocationRecord>& records) {
  constexpr auto kRecordBytes = static_cast<std::int64_t>(sizeof(AllocationRecord));
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(&header), sizeof(header));
  if (!file || std::memcmp(header.magic, kAllocationMagic, sizeof(kAllocationMagic)) != 0) {
    return false;
  }
  const std::int64_t kept = std::min(header.records, kMostRecords);
  records.resize(static_cast<std::size_t>(kept));
  file.read(reinterpret_cast<char*>(records.data()), kept * kRecordBytes);
  records.resize(static_cast<std::size_t>(file.gcount() / kRecordBytes));
  return true;
}

}  // namespace gradsync::fit
