#include "harness/sync/copies.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "harness/measure/memory.h"

namespace gradsync::sync {

at::Tensor HostCopies::empty(at::IntArrayRef sizes, at::ScalarType type, at::Device from,
                             measure::MemoryCategory category) {
  const measure::HostMemoryScope host;
  const measure::MemoryScope memory(category);
  return at::empty(sizes, at::TensorOptions(at::kCPU).dtype(type).pinned_memory(from.is_cuda()));
}

at::Tensor HostCopies::to_host(const at::Tensor& tensor, measure::MemoryCategory category) const {
  at::Tensor on_host = empty(tensor.sizes(), tensor.scalar_type(), tensor.device(), category);
  copy(tensor, on_host);
  return on_host;
}

at::Tensor HostCopies::to_device(const at::Tensor& on_host, at::Device device,
                                 measure::MemoryCategory category) const {
  at::Tensor tensor;
  {
    const measure::MemoryScope memory(category);
    tensor = at::empty(on_host.sizes(), at::TensorOptions(device).dtype(on_host.scalar_type()));
  }
  copy(on_host, tensor);
  return tensor;
}

void HostCopies::copy(const at::Tensor& from, const at::Tensor& to) const {
  const at::NoGradGuard no_grad;
  const measure::InnerPhaseScope phase(recorder_, measure::Phase::Offload);
  to.copy_(from);
}

at::Tensor Casts::to(const at::Tensor& tensor, at::ScalarType type,
                     measure::MemoryCategory category) const {
  if (tensor.scalar_type() == type) return tensor;
  const measure::InnerPhaseScope phase(recorder_, measure::Phase::Cast);
  const at::NoGradGuard no_grad;
  const measure::MemoryScope memory(category);
  return tensor.to(type);
}

}  // namespace gradsync::sync
