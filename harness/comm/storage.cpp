#include "harness/comm/storage.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <utility>

#include "harness/base/clock.h"
#include "harness/measure/memory.h"

namespace gradsync::comm {

void release_storage(const at::Tensor& tensor) {
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(at::DataPtr(nullptr, tensor.device()));
  storage->set_nbytes(0);
}

void await_release(std::int64_t bytes) {
  constexpr std::int64_t kPollNs = 50'000;
  constexpr double kPatienceS = 2;
  const Clock& clock = steady_clock();
  const std::int64_t deadline_ns = clock.now_ns() + nanoseconds(kPatienceS);
  while (measure::meter().allocated_bytes() > bytes && clock.now_ns() < deadline_ns) {
    clock.sleep_until_ns(clock.now_ns() + kPollNs);
  }
}

at::Tensor reclaim_storage(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  c10::StorageImpl* shared = tensor.storage().unsafeGetStorageImpl();
  const std::size_t bytes = shared->nbytes();
  at::DataPtr data = shared->set_data_ptr(at::DataPtr(nullptr, tensor.device()));
  shared->set_nbytes(0);
  const at::Storage own(c10::Storage::use_byte_size_t(), bytes, std::move(data),
                        shared->allocator(), shared->resizable());
  at::Tensor reclaimed = at::empty({0}, tensor.options());
  return reclaimed.set_(own, tensor.storage_offset(), tensor.sizes(), tensor.strides());
}

void refill_storage(const at::Tensor& tensor) {
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  const auto bytes = static_cast<std::size_t>(tensor.numel()) * tensor.itemsize();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(bytes));
  storage->set_nbytes(bytes);
}

}  // namespace gradsync::comm
