// The file in which a watched process keeps what happens to it: a header, then records of one size.
//
// The process writes through shared memory, so that the kernel has every record the moment it is
// there and a process that is killed loses none. Written by preload/recorder.cpp inside the job,
// read by read_events.cpp. Both sides are of one machine: numbers are in its own byte order.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gradsync::watch {

inline constexpr char kEventFileMagic[] = "GSWATCH1";  // the digit: version of what follows
inline constexpr std::size_t kMagicBytes = 8;
inline constexpr const char* kEventFilePrefix = "native-";  // then the process id
inline constexpr const char* kNcclFilePrefix = "nccl-";     // of what NCCL was called for
inline constexpr const char* kEventFileSuffix = ".events";

// The header's place; the file is padded up to the first record.
inline constexpr std::size_t kHeaderBytes = 1024;
// The file grows by this, mapped anew: a page of any machine divides it. Larger: fewer pauses of
// some microseconds, and more disk for a process that records little.
inline constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
// 64 MiB of file, half a million events: of a job with 50 a step, the first ten thousand steps.
inline constexpr std::size_t kMostChunks = 64;

// Whether a process knows what its CPU tensors hold. Files of before it was there say Unasked.
enum class TensorCount : std::int32_t {
  Unasked,         // the count did not begin before the first one was made
  Counted,         // all that the training's thread made
  OtherAllocator,  // the job has an allocator of its own, before or behind the one that counts
  OtherThread,     // the job trains on another thread than the one that imported torch
};

struct EventFileHeader {
  char magic[kMagicBytes];
  std::int64_t pid;
  std::int64_t claimed;          // records begun, also those that found no room
  std::int64_t optimizer_steps;  // completed or not
  std::int32_t rank;             // of the largest process group seen; -1: none was
  std::int32_t world_size;
  std::int32_t environment_rank;  // RANK and WORLD_SIZE; -1 and 0: not set
  std::int32_t environment_world_size;
  char torch_version[64];
  char fault[256];  // the first thing that went wrong, a sentence; empty: nothing did
  std::int64_t tensor_peak_bytes;  // the most that its CPU tensors held so far
  TensorCount tensor_count;        // what that is worth
};
static_assert(sizeof(EventFileHeader) <= kHeaderBytes);

struct EventRecord {
  std::uint32_t written;  // 1 once all of it is there
  std::uint32_t kind;     // an EventKind (event.h)
  std::int64_t start_ns;  // of CLOCK_MONOTONIC
  std::int64_t end_ns;    // 0: not known
  // A collective's tensor; a backward's gradients, of the leaves that it reached; what tensors held
  // at most until an optimizer's step ended; the outputs of Work. -1: not known.
  std::int64_t bytes;
  // A collective's number tells process groups apart; 0: not known. A backward has here how many of
  // its bytes were added to a gradient that was there, and Work its floating point operations.
  std::int64_t object;
  std::int64_t thread;  // as the kernel numbers them; of Work: number of a stack
  // A backward has here the number of leaves whose gradients it reached. A collective of c10d has
  // the nanoseconds until its operator returned; 0: it has not. Work has how often its operator
  // ran.
  std::int64_t count;
  char name[40];    // ends in NUL; cut where it is longer
  char detail[32];  // of a collective: its process group's name; of Work: the rest of its name
};
static_assert(sizeof(EventRecord) == 128);
static_assert(kHeaderBytes % sizeof(EventRecord) == 0 && kChunkBytes % sizeof(EventRecord) == 0);

inline constexpr std::int64_t kMostRecords =
    (kMostChunks * kChunkBytes - kHeaderBytes) / sizeof(EventRecord);

}  // namespace gradsync::watch
