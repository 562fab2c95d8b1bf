// Counts what the CPU tensors of this process hold: an allocator before torch's own one, from
// gradsync_count_tensors() on.
//
// Of the thread that called it: what libraries allocate on threads of their own (gloo copies what
// it gathers, when the network lets it) would make a peak depend on the network's mood. So would
// what they give back late: they are waited for. A backward on the CPU runs on the thread that
// calls it. Not counted either: tensors from before, and what is no tensor's (gloo's buffers,
// MKL's).
//
// torch insists that an allocator can free by the pointer alone (raw_deleter) and that the context
// of a pointer is the pointer itself, as with the allocator that does the work here.
#include <c10/core/CPUAllocator.h>
#include <pthread.h>

#include "harness/watch/preload/helping_threads.h"
#include "harness/watch/preload/tensor_account.h"

namespace gradsync::watch {
namespace {

constexpr std::uint8_t kHighestPriority = 255;

thread_local bool is_counted = false;
c10::Allocator* torchs_own = nullptr;

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
  if (account().would_raise_peak(bytes)) helping_threads().wait_until_resting();
  account().add(data, bytes);
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

}  // namespace

// Counts from here on what this thread allocates; call it before the first tensor, for all of them.
// Returns whether it does: false where the process has an allocator that cannot be stood before.
extern "C" __attribute__((visibility("default"))) bool gradsync_count_tensors() {
  if (torchs_own == nullptr) {
    c10::Allocator* const own = c10::GetCPUAllocator();
    if (own->raw_deleter() == nullptr) return false;
    torchs_own = own;
    ::pthread_atfork(lock_account, unlock_account, unlock_account);
    c10::SetCPUAllocator(new CountingAllocator, kHighestPriority);  // for the life of the process
  }
  is_counted = true;
  return true;
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
  account().reset_peak();
}

}  // namespace gradsync::watch
