// What the ranks of a trial report about the model that they trained: "model_info" of its record,
// from rank 0. A field that is unset or empty was not reported, or is newer than the record.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gradsync::results {

// A GPU as CUDA describes it; versions as texts.
struct GpuDescription {
  std::string name;
  std::string uuid;  // "GPU-...", as nvidia-smi writes it; of an instance "MIG-..."
  std::string pci_bus_id;
  std::string compute_capability;  // "9.0"
  std::uint64_t memory_bytes = 0;
  std::string cuda_driver;   // the newest CUDA that the driver serves
  std::string cuda_runtime;  // torch's
  std::string nccl;
};

// Work that every rank did in addition to its steps, in a gate's self-test.
struct ExtraWorkDone {
  double share = 0;                      // of a step
  std::int64_t operations_per_step = 0;  // of rank 0
  std::int64_t operations = 0;           // since it started
};

struct ModelInfo {
  std::optional<std::int64_t> parameters;  // elements, those on other ranks included
  std::optional<std::int64_t> gradient_bytes;
  std::optional<std::int64_t> tensors;  // that hold the parameters
  std::optional<std::vector<std::int64_t>> bucket_bytes;
  std::optional<int> scale;
  std::optional<bool> paced;
  std::vector<std::string> freshly_initialised;  // parameters that the weights lack
  std::string host_reads_back;  // on a GPU: what the host waits for in every micro-batch
  std::optional<bool> timing_valid;
  std::string timing_reason;  // why they are not
  std::optional<GpuDescription> gpu;
  // The transports of rank 0's channels. Unset: NCCL was not asked; unset inside: it did not say.
  std::optional<std::optional<std::string>> nccl_transports;
  std::optional<std::int64_t> fold_from_bytes;
  // Beside it: the rank's share of physical memory when the trial ended; unset inside: not known.
  std::optional<std::optional<std::int64_t>> physical_bytes;
  std::optional<ExtraWorkDone> extra_work;

  bool has_valid_times() const { return timing_valid.value_or(true); }
  void refuse_times(const std::string& reason) {
    timing_valid = false;
    timing_reason = reason;
  }
};

}  // namespace gradsync::results
