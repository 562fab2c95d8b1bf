// What the CPU tensors of a process hold, to the byte: now, and at most. No torch.
//
// Blocks are counted with the bytes that were asked for, so that a peak is the same on every
// machine that runs the same operators. All functions may be called from any thread; a fork waits
// until none is inside.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace gradsync::watch {

class TensorAccount {
 public:
  // A block begins, which is not the account's yet.
  void add(const void* block, std::int64_t bytes);

  // Whether such a block would be a new peak.
  bool would_raise_peak(std::int64_t bytes) const;

  // A block ends; one that the account does not know is none of its business.
  void remove(const void* block);

  std::int64_t held_bytes() const;

  // The most since reset_peak(), and at least what was held then.
  std::int64_t peak_bytes() const;
  void reset_peak();

  // For pthread_atfork: the thread that holds it keeps all others out.
  std::mutex& mutex() { return mutex_; }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<const void*, std::int64_t> blocks_;
  std::int64_t held_bytes_ = 0;
  std::int64_t peak_bytes_ = 0;
};

}  // namespace gradsync::watch
