// Counts what the CPU tensors of this process hold: an allocator before torch's own one, from
// gradsync_count_tensors() on. The Python hook of a watched job calls it while torch is imported.
//
// It counts tensors of the thread that called that function, and of no other. Libraries allocate on
// threads of their own at times that depend on the network (gloo copies what it gathers), and would
// make the peak depend on it too. So would what they free late: the count waits for these threads.
// A backward on the CPU runs on the thread that calls it. Tensors from before are not counted, nor
// is memory that is no tensor's (gloo's buffers, MKL's).
//
// torch insists that an allocator can free by the pointer alone (raw_deleter) and that the context
// of a pointer is the pointer itself, as with the allocator that does the work here. A job that has
// an allocator of its own keeps it: ours has no priority before any other.
#include <c10/core/CPUAllocator.h>
#include <pthread.h>

#include "harness/watch/inject/preload/helping_threads.h"
#include "harness/watch/inject/preload/operator_work.h"
#include "harness/watch/inject/preload/tensor_account.h"
#include "harness/watch/inject/preload/watcher.h"

namespace gradsync::watch {
namespace {

thread_local bool is_counted = false;
c10::Allocator* torchs_own = nullptr;
c10::Allocator* counting = nullptr;  // for the life of the process

// Never destroyed: tensors in static variables are freed after everything else.
TensorAccount& account() {
  static TensorAccount& instance = *new TensorAccount;
  return instance;
}

void give_back(void* data) {
  account().remove(data);  // before another thread can be given the same address
  torchs_own->raw_deallocate(data);
}

// A peak is one only if no other thread is about to give something back.
void count(const void* data, std::int64_t bytes) {
  count_allocation(bytes);
  const bool is_peak = account().would_raise_peak(bytes);
  if (is_peak) helping_threads().wait_until_resting();
  account().add(data, bytes);
  if (is_peak) recorder.set_tensor_peak(account().peak_bytes());
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* const data = torchs_own->raw_allocate(bytes);
    if (data != nullptr && is_counted) count(data, static_cast<std::int64_t>(bytes));
    return {data, data, &give_back, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

void lock_account() {
  account().mutex().lock();
}

void unlock_account() {
  account().mutex().unlock();
}

void tell_peak_anew() {
  account().reset_peak();
  recorder.set_tensor_peak(account().peak_bytes());
}

// It holds what its parent held, and held no more yet.
void unlock_account_in_child() {
  unlock_account();
  tell_peak_anew();
}

bool stand_before_torchs_own() {
  c10::Allocator* const own = c10::GetCPUAllocator();
  if (own->raw_deleter() == nullptr) return false;
  torchs_own = own;
  counting = new CountingAllocator;
  ::pthread_atfork(lock_account, unlock_account, unlock_account_in_child);
  c10::SetCPUAllocator(counting);
  return true;
}

}  // namespace

void check_tensor_count() noexcept {
  if (recorder.tensor_count() != TensorCount::Counted) return;
  if (c10::GetCPUAllocator() != counting) {
    recorder.set_tensor_count(TensorCount::OtherAllocator);
  } else if (!is_counted) {
    recorder.set_tensor_count(TensorCount::OtherThread);
  }
}

// Counts from here on what this thread allocates; call it before the first tensor, for all of them.
// Returns whether it does: false where the process has an allocator that cannot be stood before.
extern "C" __attribute__((visibility("default"))) bool gradsync_count_tensors() {
  const bool stands = counting != nullptr || stand_before_torchs_own();
  is_counted = stands && c10::GetCPUAllocator() == counting;
  recorder.set_tensor_count(is_counted ? TensorCount::Counted : TensorCount::OtherAllocator);
  return is_counted;
}

extern "C" __attribute__((visibility("default"))) std::int64_t gradsync_tensor_bytes() {
  helping_threads().wait_until_resting();
  return account().held_bytes();
}

// The most since gradsync_reset_tensor_peak().
extern "C" __attribute__((visibility("default"))) std::int64_t gradsync_tensor_peak_bytes() {
  return account().peak_bytes();
}

extern "C" __attribute__((visibility("default"))) void gradsync_reset_tensor_peak() {
  helping_threads().wait_until_resting();
  tell_peak_anew();
}

}  // namespace gradsync::watch
