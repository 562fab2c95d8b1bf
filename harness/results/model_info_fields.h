// The fields of a trial's "model_info". For the files that read and write it; everything else
// includes model_info.h alone.
#pragma once

#include "harness/base/fields.h"
#include "harness/results/model_info.h"

namespace gradsync::results {

constexpr auto fields_of(const GpuDescription*) {
  return std::tuple{GRADSYNC_LATER_FIELDS(GpuDescription, name, uuid, pci_bus_id,
                                          compute_capability, memory_bytes, cuda_driver,
                                          cuda_runtime, nccl)};
}

GRADSYNC_FIELDS_OF(ExtraWorkDone, share, operations_per_step, operations)

constexpr auto fields_of(const ModelInfo*) {
  return std::tuple{GRADSYNC_SPARED_FIELDS(
      ModelInfo, parameters, gradient_bytes, tensors, bucket_bytes, scale, paced,
      freshly_initialised, host_reads_back, timing_valid, timing_reason, gpu, nccl_transports,
      fold_from_bytes, physical_bytes, extra_work)};
}

}  // namespace gradsync::results
