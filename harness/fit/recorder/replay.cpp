// Replays what a job asked of torch's caching allocator to the same allocator under other settings:
// PYTORCH_ALLOC_CONF=... replay FILE DEVICE [without-workspaces], with GPUs of paper preloaded.
// Linked with the allocator's own library alone, so that torch itself need not be loaded.
//
// Prints one line: the most that was allocated and reserved, in bytes, and 1 where memory was out,
// else 0. Where it was out in the job, the same is asked for here; a job that went on goes on here.
// Exit status 2 where it cannot read the file.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <unordered_map>
#include <vector>

#include "harness/fit/recorder/allocation_file.h"

namespace gradsync::fit {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

class Replay {
 public:
  // False: the GPU has no room for it.
  bool take(const AllocationRecord& record) {
    switch (record.action) {
      case Action::Alloc:
        return allocate(record);
      case Action::OutOfMemory:
        return try_to_allocate(record);
      case Action::FreeCompleted:
        release(record.address);
        return true;
      case Action::EmptyCache:
        allocator::emptyCache();
        return true;
      default:
        return true;
    }
  }

 private:
  bool allocate(const AllocationRecord& record) {
    try {
      blocks_[record.address] =
          allocator::raw_alloc_with_stream(record.size, stream_of(record.stream));
      return true;
    } catch (const c10::OutOfMemoryError&) {
      return false;
    }
  }

  // The job did not get it either, so that it is let go again.
  bool try_to_allocate(AllocationRecord record) {
    record.address = 0;
    if (!allocate(record)) return false;
    release(0);
    return true;
  }

  // The job's own are not here; the default one is everywhere.
  cudaStream_t stream_of(std::uint64_t recorded) {
    if (recorded == 0) return nullptr;
    const auto [stream, is_new] = streams_.try_emplace(recorded, nullptr);
    // Torch's own pool of streams needs all of torch, and linking would need the CUDA of the job.
    static const auto create = reinterpret_cast<cudaError_t (*)(cudaStream_t*, unsigned)>(
        ::dlsym(RTLD_DEFAULT, "cudaStreamCreateWithFlags"));
    if (is_new && create != nullptr) create(&stream->second, cudaStreamNonBlocking);
    return stream->second;
  }

  // What was allocated before recording began is not there.
  void release(std::uint64_t address) {
    const auto block = blocks_.find(address);
    if (block == blocks_.end()) return;
    allocator::raw_delete(block->second);
    blocks_.erase(block);
  }

  std::unordered_map<std::uint64_t, void*> blocks_;
  std::unordered_map<std::uint64_t, cudaStream_t> streams_;
};

// Returns the records of that device; nothing where the file is none.
std::vector<AllocationRecord> read(const char* path, c10::DeviceIndex device) {
  AllocationHeader header{};
  std::vector<AllocationRecord> records;
  if (!read_file(path, header, records)) return {};
  std::erase_if(records, [&](const AllocationRecord& record) {
    return record.device != static_cast<std::uint16_t>(device);
  });
  return records;
}

// Takes away the blocks that are labelled as workspaces. Their frees find nothing then.
void remove_workspaces(std::vector<AllocationRecord>& records) {
  std::unordered_map<std::uint64_t, std::size_t> last;  // by address
  std::vector<bool> is_workspace(records.size());
  for (std::size_t i = 0; i < records.size(); ++i) {
    const AllocationRecord& record = records[i];
    if (record.action == Action::Alloc) last[record.address] = i;
    if (record.action != Action::Label || record.holds != Holds::Workspace) continue;
    if (const auto found = last.find(record.address); found != last.end()) {
      is_workspace[found->second] = true;
    }
  }
  std::size_t i = 0;
  std::erase_if(records, [&](const AllocationRecord&) { return is_workspace[i++]; });
}

// Whether memory that is out here ends the job: it got none where it was out there, and went on.
bool is_the_end(const AllocationRecord* record, const AllocationRecord* end) {
  if (record->action != Action::OutOfMemory) return true;
  return std::none_of(record, end,
                      [](const AllocationRecord& later) { return later.action == Action::Alloc; });
}

int replay(const char* path, c10::DeviceIndex device, bool without_workspaces) {
  std::vector<AllocationRecord> records = read(path, device);
  if (records.empty()) return 2;
  if (without_workspaces) remove_workspaces(records);
  allocator::init(c10::cuda::device_count());
  c10::cuda::set_device(device);
  Replay replay;
  bool is_out = false;
  const AllocationRecord* end = records.data() + records.size();
  for (const AllocationRecord& record : records) {
    is_out = !replay.take(record) && is_the_end(&record, end);
    if (is_out) break;
  }
  const auto statistics = allocator::getDeviceStats(device);
  std::printf("%lld %lld %d\n", static_cast<long long>(statistics.allocated_bytes[0].peak),
              static_cast<long long>(statistics.reserved_bytes[0].peak), is_out ? 1 : 0);
  return 0;
}

}  // namespace
}  // namespace gradsync::fit

int main(int count, char** words) {
  if (count != 3 && count != 4) return 2;
  const int status = gradsync::fit::replay(
      words[1], static_cast<c10::DeviceIndex>(std::atoi(words[2])), count == 4);
  std::fflush(stdout);
  std::_Exit(status);  // blocks that the job still held are no leak
}
