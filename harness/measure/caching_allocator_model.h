// An estimate of what a GPU would reserve: a model of PyTorch's CUDA caching allocator.
//
// The idea: that allocator asks the driver for segments of 2 MiB, 20 MiB or more, cuts blocks from
// them, and keeps segments when their blocks are freed. Its rules need no GPU, only the sizes and
// the order of allocations; fed with those of a CPU run, this model says how many bytes would be
// reserved for it.
//
// For one stream it reserves what the allocator itself does, to the byte, out of memory included:
// allocator_oracle_test has both do the same random streams. For a CPU run it is still an
// estimate, and labelled so wherever it appears: it knows no workspaces (cuBLAS), NCCL buffers,
// CUDA context or other streams, and kernels allocate otherwise on a GPU. Where two free blocks of
// equal size fit, the one with the lower address is taken, and so where segments are is the
// driver's choice: here each is at the lowest address that is free.
//
// Source: c10/cuda/CUDACachingAllocator.cpp (round_size, get_pool, get_allocation_size,
// get_free_block, should_split, alloc_found_block, free_block, release_cached_blocks) and
// c10/core/AllocatorConfig.h of PyTorch 2.11, with their defaults: no expandable segments, no
// limit on splitting, no rounding to powers of two, no garbage collection.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

namespace gradsync::measure {

// Not for several threads at once. Cost: O(log n) of the blocks that exist; of a new segment, once
// one was given back, O(n).
class CachingAllocatorModel {
 public:
  static constexpr std::int64_t kMinBlockSize = 512;        // sizes are multiples of it
  static constexpr std::int64_t kSmallSize = 1 << 20;       // up to here from the small pool
  static constexpr std::int64_t kSmallBuffer = 2 << 20;     // a segment of the small pool
  static constexpr std::int64_t kMinLargeAlloc = 10 << 20;  // from here a segment of its own
  static constexpr std::int64_t kLargeBuffer = 20 << 20;    // a shared segment, large pool
  static constexpr std::int64_t kRoundLarge = 2 << 20;      // own segments are multiples of it

  struct Block {
    std::int64_t bytes = 0;
    bool used = false;
    bool small = false;  // which pool
    bool operator==(const Block&) const = default;
  };
  using Blocks = std::map<std::int64_t, Block>;  // by address

  // With a limit, segments in which nothing is used are given back before it would be exceeded.
  explicit CachingAllocatorModel(std::optional<std::int64_t> limit_bytes = std::nullopt)
      : limit_bytes_(limit_bytes) {}

  // Allocates `bytes`, at least 1, under a name that is not in use.
  // Returns false where the real allocator would be out of memory: even without its unused segments
  // a new one would exceed the limit. They are then gone, and nothing else changed.
  [[nodiscard]] bool allocate(std::uint64_t id, std::int64_t bytes);
  // Frees what allocate() gave under this name. Errors: InternalError for an unknown name.
  void free(std::uint64_t id);

  // Blocks in use, as rounded (torch.cuda.memory_allocated).
  std::int64_t allocated_bytes() const { return allocated_.now; }
  std::int64_t peak_allocated_bytes() const { return allocated_.peak; }
  // Segments held, used or not (torch.cuda.memory_reserved).
  std::int64_t reserved_bytes() const { return reserved_.now; }
  std::int64_t peak_reserved_bytes() const { return reserved_.peak; }
  // Returns every block, used or free. These blocks, the names in use and the next requests
  // determine all that follows.
  const Blocks& blocks() const { return blocks_; }
  // Segments stay, as after torch.cuda.reset_peak_memory_stats.
  void reset_peak();
  // From the next segment on.
  void set_limit(std::optional<std::int64_t> bytes) { limit_bytes_ = bytes; }
  // Gives back segments in which nothing is used (torch.cuda.empty_cache).
  void release_unused_segments();

 private:
  struct Gauge {
    std::int64_t now = 0;
    std::int64_t peak = 0;
    void add(std::int64_t bytes);
  };
  using Iterator = Blocks::iterator;
  using Pool = std::set<std::pair<std::int64_t, std::int64_t>>;  // {bytes, address} of free blocks

  Pool& pool(bool small) { return small ? small_free_ : large_free_; }
  void put_in_pool(Iterator block);
  void take_from_pool(Iterator block);
  std::optional<Iterator> best_fit(std::int64_t bytes, bool small);
  std::optional<Iterator> new_segment(std::int64_t bytes, bool small);
  std::int64_t lowest_address(std::int64_t segment_bytes) const;
  void split(Iterator block, std::int64_t bytes);
  // The block right before or after, where it is of the same segment.
  std::optional<Iterator> before(Iterator block);
  std::optional<Iterator> after(Iterator block);
  // Two blocks become one.
  void absorb(Iterator first, Iterator second);

  std::optional<std::int64_t> limit_bytes_;
  Blocks blocks_;
  Pool small_free_;
  Pool large_free_;
  std::unordered_map<std::uint64_t, Iterator> used_;  // by id
  bool has_holes_ = false;                            // a segment was given back
  Gauge allocated_;
  Gauge reserved_;
};

}  // namespace gradsync::measure
