// Copies of tensors that are phases of their own: to the host and back, or to another type.
#pragma once

#include <ATen/core/Tensor.h>

#include "harness/measure/memory_category.h"
#include "harness/measure/step_recorder.h"

namespace gradsync::sync {

// Copies of offloaded tensors between the device and the host. On the CPU, which is both, each copy
// is still made: it takes its time, and the memory meter counts the host's tensors in an account of
// their own. From a GPU, copies go to pinned memory.
class HostCopies {
 public:
  // `recorder`, which may be null, sees each copy as a phase of its own.
  explicit HostCopies(measure::StepRecorder* recorder) : recorder_(recorder) {}

  // Returns memory on the host for what is on `from`, a device. Values are undefined.
  static at::Tensor empty(at::IntArrayRef sizes, at::ScalarType type, at::Device from,
                          measure::MemoryCategory category);

  // Returns a copy on the host, on `device`. Blocks until it is made. No graph.
  at::Tensor to_host(const at::Tensor& tensor, measure::MemoryCategory category) const;
  at::Tensor to_device(const at::Tensor& on_host, at::Device device,
                       measure::MemoryCategory category) const;
  // Overwrites `to`, which is on the other side.
  void copy(const at::Tensor& from, const at::Tensor& to) const;

 private:
  measure::StepRecorder* recorder_;
};

// Copies of tensors in another type, as a phase of their own: the cost of mixed precision beside
// the arithmetic. Casts that an operator makes by itself are not included (autocast, or a sum of
// two types).
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
