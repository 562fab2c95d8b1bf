// Copies of tensors in another type, as a phase of their own: what a step's types of numbers cost
// beside the arithmetic. Not those that an operator makes by itself (autocast, or a sum of two
// types).
#pragma once

#include <ATen/core/Tensor.h>

#include "harness/measure/memory_category.h"
#include "harness/measure/step_recorder.h"

namespace gradsync::sync {

class Casts {
 public:
  // `recorder`, which may be null, sees each as a phase.
  explicit Casts(measure::StepRecorder* recorder) : recorder_(recorder) {}

  // Returns the same values in `type`: the tensor itself where it has it already. No graph.
  at::Tensor to(const at::Tensor& tensor, at::ScalarType type,
                measure::MemoryCategory category) const;

 private:
  measure::StepRecorder* recorder_;
};

}  // namespace gradsync::sync
