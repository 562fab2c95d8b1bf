// The fields of a trial's "model_info". For the files that read and write it; everything else
// includes model_info.h alone.
#pragma once

#include "harness/base/fields.h"
#include "harness/results/model_info.h"

namespace gradsync::results {

constexpr auto fields_of(const GpuDescription*) {
  return std::tuple{field("name", &GpuDescription::name).later(),
                    field("uuid", &GpuDescription::uuid).later(),
                    field("pci_bus_id", &GpuDescription::pci_bus_id).later(),
                    field("compute_capability", &GpuDescription::compute_capability).later(),
                    field("memory_bytes", &GpuDescription::memory_bytes).later(),
                    field("cuda_driver", &GpuDescription::cuda_driver).later(),
                    field("cuda_runtime", &GpuDescription::cuda_runtime).later(),
                    field("nccl", &GpuDescription::nccl).later()};
}

constexpr auto fields_of(const ExtraWorkDone*) {
  return std::tuple{field("share", &ExtraWorkDone::share),
                    field("operations_per_step", &ExtraWorkDone::operations_per_step),
                    field("operations", &ExtraWorkDone::operations)};
}

constexpr auto fields_of(const ModelInfo*) {
  return std::tuple{field("parameters", &ModelInfo::parameters).spared(),
                    field("gradient_bytes", &ModelInfo::gradient_bytes).spared(),
                    field("tensors", &ModelInfo::tensors).spared(),
                    field("bucket_bytes", &ModelInfo::bucket_bytes).spared(),
                    field("scale", &ModelInfo::scale).spared(),
                    field("paced", &ModelInfo::paced).spared(),
                    field("freshly_initialised", &ModelInfo::freshly_initialised).spared(),
                    field("host_reads_back", &ModelInfo::host_reads_back).spared(),
                    field("timing_valid", &ModelInfo::timing_valid).spared(),
                    field("timing_reason", &ModelInfo::timing_reason).spared(),
                    field("gpu", &ModelInfo::gpu).spared(),
                    field("nccl_transports", &ModelInfo::nccl_transports).spared(),
                    field("fold_from_bytes", &ModelInfo::fold_from_bytes).spared(),
                    field("physical_bytes", &ModelInfo::physical_bytes).spared(),
                    field("extra_work", &ModelInfo::extra_work).spared()};
}

}  // namespace gradsync::results
