// The memory instrument on the CPU: every byte of every tensor, by category, and a hard limit.
//
// The idea: one allocator for all CPU tensors of the process keeps an account of what is held,
// what it is for and where in the step it was asked. Bytes are those that a tensor's storage asks
// for, not rounded; so a peak is exact, and the same on every machine. A budget refuses what would
// exceed it with the exception that a full GPU gives; freeing then goes on as usual, and so may
// training.
//
// Where models take turns in one process, each has an account of its own, as if it were alone: the
// memory of the others, while they wait, is neither in its peak nor against its budget.
//
// A tensor that is offloaded to the host would leave a GPU's memory. On the CPU, which is device
// and host at once, it is counted in a second account, `host`, beside the device's and not in it.
//
// Not counted: what is not a CPU tensor's storage (gloo's and MKL's buffers, oneDNN's where that is
// asked for, autograd's own objects, from_blob), tensors from before install(), and those that a
// library makes on threads of its own: gloo copies what it gathers, at times that depend on the
// network, and on a GPU NCCL's buffers do not come from the allocator either. So a peak does not
// depend on the network.
//
// All functions may be called from any thread. Cost: two look-ups in a hash table under one lock
// per tensor, beside malloc; benchmarks/micro/engine.cpp measures it (allocation). The lock is
// held while memory is asked from the system, so threads that allocate take turns.
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "harness/base/clock.h"
#include "harness/measure/caching_allocator_model.h"
#include "harness/measure/folding.h"
#include "harness/measure/memory_category.h"
#include "harness/measure/memory_changes.h"
#include "harness/measure/memory_timeline.h"

namespace c10 {
struct Storage;
}

namespace gradsync::measure {

// Counts the allocations of this thread in `category` while the scope lives. Scopes nest: the
// innermost counts. Backward of a CPU graph runs on the thread that calls it, and so in its scope.
// Costs next to nothing, with or without an installed meter.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryCategory category);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  MemoryCategory outer_;
};

// Counts the allocations of this thread in the account `host` while the scope lives, and neither in
// the device's peaks nor against its budget. Scopes nest. Costs next to nothing.
class HostMemoryScope {
 public:
  HostMemoryScope();
  ~HostMemoryScope();
  HostMemoryScope(const HostMemoryScope&) = delete;
  HostMemoryScope& operator=(const HostMemoryScope&) = delete;

 private:
  bool outer_;
};

// Moves the block whose first byte is `data` (a storage's, not a view's) to `category`. No effect
// on memory that the meter did not hand out. The peak's composition changes too if nothing was
// allocated since the peak, so a tensor may be labelled right after it was made. With `only_from`,
// a block of another category stays as it is.
void relabel_memory(const void* data, MemoryCategory category,
                    std::optional<MemoryCategory> only_from = std::nullopt);

struct MemoryOptions {
  // Tensors of this many bytes and more are folded onto one file (measure/folding.h) and hold
  // garbage; they are counted like any other. Memory that an operator asks for while it runs is not
  // folded (measure/operator_scope.h): a kernel relies on it. The operator's outputs are folded at
  // its end, by a change of the storage's address. 0: none.
  std::int64_t fold_from_bytes = 0;
  // Neither counts nor limits the scratch memory of matrix products in bfloat16: it depends on the
  // library and on the processor. Products in float32 take theirs from the system anyway.
  bool leave_out_libraries = false;
  // Feeds the model of a GPU's allocator (measure/caching_allocator_model.h) with the same stream.
  bool estimate_reserved = false;
};

// An allocation that was refused.
struct OutOfMemoryReport {
  std::int64_t asked_bytes = 0;
  std::int64_t had_bytes = 0;     // of the budget, still free
  std::int64_t budget_bytes = 0;  // 0: no budget, the machine itself had no more
  MemoryPlace place;              // as set_place() and set_phase() said last
};

// What is held in one account, and its peak since reset_peak().
struct HeldMemory {
  CategoryBytes allocated{};
  std::int64_t allocated_bytes = 0;
  CategoryBytes peak{};  // what the peak consisted of, at its first instant
  std::int64_t peak_bytes = 0;
  CategoryBytes highest{};     // the most of each category, each by itself: no sum
  bool peak_was_last = false;  // nothing was allocated since the peak

  void add(MemoryCategory category, std::int64_t bytes);
  void raise_peak();
  void reset_peak();
  // As relabel_memory().
  void relabel(MemoryCategory from, MemoryCategory to, std::int64_t bytes);
};

// One per process; meter() returns it.
class MemoryMeter {
 public:
  // From now on this meter allocates the CPU tensors of the process. Once, before any tensor
  // exists: what exists is not counted.
  // Errors: InternalError on a second call; EnvironmentError where folding is impossible.
  void install(const MemoryOptions& options = {});
  bool installed() const;

  // Counts allocations in this account from now on, and everything below is about it. Freed memory
  // leaves the account that it came from. For all threads. The first account is 0; a new one is
  // empty.
  void switch_account(int account);
  int account() const;

  // A tensor that would make allocated_bytes() exceed the budget throws c10::OutOfMemoryError
  // ("asked 1024 bytes, had 512 of a budget of 4096 bytes"). Exact to the byte: a run succeeds at
  // its peak and fails at one byte less. Nothing: no limit but the machine's, which throws
  // likewise. A budget is at least 1 byte.
  void set_budget_bytes(std::optional<std::int64_t> budget_bytes);
  // Sets where the rank is from now on; reports and timelines contain it. For all threads.
  void set_place(int step, int micro_batch, std::string_view phase, std::string_view unit = {});
  // The same step and micro-batch, elsewhere in it.
  void set_phase(std::string_view phase, std::string_view unit = {});
  // Where that is; never null.
  std::shared_ptr<const MemoryPlace> place() const;
  // Returns the last refusal, if there was one.
  std::optional<OutOfMemoryReport> last_oom() const;

  // Returns what tensors hold now. Here and below: on the device, unless it says host.
  std::int64_t allocated_bytes() const;
  CategoryBytes allocated_by_category() const;

  // The account `host`: what is offloaded.
  HeldMemory host() const;

  // Return the peak since reset_peak(), also of the host, and what it consisted of at its first
  // instant.
  void reset_peak();
  std::int64_t peak_bytes() const;
  CategoryBytes peak_by_category() const;
  // Returns the peak of each category since reset_peak(), each by itself: not held at one time, so
  // they have no sum.
  CategoryBytes highest_by_category() const;
  // Returns an estimate of the most that a GPU would have reserved since reset_peak(); segments
  // cached before that count, as on a GPU. Nothing if no estimate was asked for.
  std::optional<std::int64_t> peak_reserved_estimate_bytes() const;

  // Records every change from here to end_timeline(), merged into at most `max_points` points; the
  // first is the state at the beginning. Without a begin, end_timeline() returns nothing.
  void begin_timeline(const Clock& clock = steady_clock(), std::size_t max_points = 4096);
  std::vector<MemoryPoint> end_timeline();

  // Keeps every change from here to end_changes(), for comparison. take_changes() returns those
  // since the beginning or the last take, and goes on from the state it finds.
  void begin_changes();
  MemoryChanges take_changes();
  void end_changes();

 private:
  friend class MeteredAllocator;
  friend void relabel_memory(const void* data, MemoryCategory category,
                             std::optional<MemoryCategory> only_from);
  struct Block {
    std::int64_t bytes;
    MemoryCategory category;
    bool folded;
    bool on_host;
    int account;
    std::uint64_t name;  // in the model of a GPU's allocator
  };
  struct Account {
    HeldMemory device;
    HeldMemory host;
    std::optional<CachingAllocatorModel> reserved_model;  // of the device's

    HeldMemory& of(const Block& block) { return block.on_host ? host : device; }
  };

  void* allocate(std::int64_t bytes);
  void free(void* data);
  void fold(const c10::Storage& storage);
  void relabel(const void* data, MemoryCategory category, std::optional<MemoryCategory> only_from);
  // With the lock held:
  bool is_to_fold(std::int64_t bytes) const;
  void* ask_system(std::int64_t bytes, bool fold);
  [[noreturn]] void refuse(const OutOfMemoryReport& report);
  void require_budget(std::int64_t bytes);
  void record_change(const Block& block);

  mutable std::mutex mutex_;
  bool installed_ = false;
  bool estimate_reserved_ = false;
  std::int64_t fold_from_bytes_ = 0;
  std::unique_ptr<FoldedMemory> folded_;
  // One block of each size that operators asked for and whose output was then folded: without them
  // each operator would pay for page faults on all that it writes.
  std::unordered_map<std::size_t, void*> spare_;
  std::exception_ptr fold_failure_;                // of an output: the next allocation throws it
  std::unordered_map<const void*, Block> blocks_;  // by first byte
  std::uint64_t next_name_ = 0;
  std::map<int, Account> accounts_{{0, {}}};
  int account_ = 0;
  Account* current_ = &accounts_[0];
  std::optional<std::int64_t> budget_bytes_;
  std::shared_ptr<const MemoryPlace> place_ = std::make_shared<const MemoryPlace>();
  std::optional<OutOfMemoryReport> last_oom_;
  const Clock* clock_ = nullptr;
  std::optional<MemoryTimeline> timeline_;
  std::optional<std::vector<MemoryChange>> changes_;
};

MemoryMeter& meter();

}  // namespace gradsync::measure
