#include "harness/sync/casts.h"

#include <ATen/core/grad_mode.h>

#include "harness/measure/memory.h"

namespace gradsync::sync {

at::Tensor Casts::to(const at::Tensor& tensor, at::ScalarType type,
                     measure::MemoryCategory category) const {
  if (tensor.scalar_type() == type) return tensor;
  const measure::InnerPhaseScope phase(recorder_, measure::Phase::Cast);
  const at::NoGradGuard no_grad;
  const measure::MemoryScope memory(category);
  return tensor.to(type);
}

}  // namespace gradsync::sync
