// The writing end of an event file, inside the job. No torch.
//
// Whatever goes wrong, the job goes on: nothing here throws, prints or ends the process. The file
// counts the events that could not be kept, and says why. Disk is reserved before it is mapped, so
// that a full one is an answer of the kernel's and not a signal in the middle of a step.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <string_view>

#include "harness/watch/inject/preload/event_file.h"
#include "harness/watch/inject/preload/event_kind.h"

namespace gradsync::watch {

// What an operator did in some time.
struct OperatorTotal {
  std::int64_t times = 0;
  std::int64_t bytes = 0;  // of its outputs
  std::int64_t flops = 0;
};

// Constant-initialized and never destroyed where it is a global: events come before and after main.
class Recorder {
 public:
  // An event that may still get its end. A process forked since cannot use it.
  struct Handle {
    EventRecord* record = nullptr;
    std::uint32_t life = 0;
  };

  // What is known of an event when it begins.
  struct Begin {
    EventKind kind = EventKind::Collective;
    std::string_view name = {};
    std::int64_t bytes = -1;
    std::int64_t object = 0;
    std::string_view detail = {};
  };

  // Makes DIRECTORY/native-PID.events, or one of another `prefix`, which must outlive the recorder.
  // Call before all else, and again after close().
  void open(const char* directory, const char* torch_version,
            const char* prefix = kEventFilePrefix) noexcept;

  // Records nothing from here on. What was mapped stays so: another thread may be writing there.
  void close() noexcept;

  // Records an event that begins now. Any thread. Cost: about 0.2 us, a map of 1 MiB every 8192nd.
  Handle begin(const Begin& event) noexcept;

  // Its end, as known so far, is now. Any thread; the latest counts.
  void end(Handle handle) noexcept;

  // An event's begin and end as known so far; both 0 where it is not recorded.
  struct Extent {
    std::int64_t start_ns = 0;
    std::int64_t end_ns = 0;
  };
  Extent extent(Handle handle) const noexcept;

  // The operator of a collective has returned now; it may still run.
  void issued(Handle handle) noexcept;

  void count(Handle handle, int more) noexcept;  // gradients

  // Records what an operator did until now.
  void add_work(std::string_view name, std::int64_t stack, const OperatorTotal& total) noexcept;

  // A backward reached a gradient of so many bytes; `is_added`: to one that was there.
  void add_gradient(Handle handle, std::int64_t bytes, bool is_added) noexcept;

  void count_optimizer_step() noexcept;

  // What the CPU tensors of the process held at most so far; it goes into the file that there is,
  // and into the next one. One thread at a time; the latest counts.
  void set_tensor_peak(std::int64_t bytes) noexcept;

  // What that is worth.
  void set_tensor_count(TensorCount count) noexcept;
  TensorCount tensor_count() const noexcept { return tensor_count_; }

  // Keeps in an event what tensors held at most until now, where that is known.
  void mark_tensor_peak(Handle handle) noexcept;

  // The process is this rank of a process group of `world_size`. The largest group counts.
  void set_place(int rank, int world_size) noexcept;

  // Keeps the first of all sentences.
  void fault(const char* sentence) noexcept;

  // In a child, right after fork(): its events are its own, in a file made at the first of them.
  void after_fork() noexcept;

 private:
  bool ready() noexcept;
  void make_file() noexcept;
  void forget_file() noexcept;
  EventRecord* place(std::int64_t index) noexcept;
  char* grow(std::size_t chunk) noexcept;
  char* map(std::size_t offset, std::size_t size) noexcept;

  const char* prefix_ = kEventFilePrefix;
  char directory_[1024] = {};
  char path_[1088] = {};
  char torch_version_[64] = {};
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  std::atomic<EventFileHeader*> header_{nullptr};
  std::atomic<char*> chunks_[kMostChunks] = {};
  std::atomic<bool> full_{false};  // of the file: it cannot grow; of the process: it has none
  std::atomic<std::uint32_t> life_{0};
  std::atomic<std::int64_t> tensor_peak_bytes_{0};
  std::atomic<TensorCount> tensor_count_{TensorCount::Unasked};
};

}  // namespace gradsync::watch
