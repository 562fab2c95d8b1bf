// The writing end of a file of allocations, mapped: a process that is killed loses no record.
#pragma once

#include <string>

#include "harness/fit/recorder/allocation_file.h"

namespace gradsync::fit {

// One thread at a time.
class RecordFile {
 public:
  // Makes the file. Returns whether it could; a file that is there is another process's.
  bool open(const std::string& path);

  // Gives the record the time. Does nothing where the file could not be made; what finds no room is
  // counted. Cost: 0.1 us, a map of 1 MiB every 16384th.
  void append(AllocationRecord record);

 private:
  bool map_chunk(std::int64_t index);

  int fd_ = -1;
  AllocationHeader* header_ = nullptr;
  AllocationRecord* chunk_ = nullptr;
  std::int64_t mapped_ = -1;  // which chunk
};

}  // namespace gradsync::fit
