// DistributedDataParallel in C++: what Python's wrapper does around c10d::Reducer, and no more.
//
// The Reducer buckets the gradients and all-reduces each bucket while backward still runs. Whether
// it does so in a given backward is decided earlier, in forward(): that is where this wrapper arms
// it, by calling prepare_for_backward, or does not. Read forward() in ddp.cpp to see why no_sync
// around backward alone cannot help.
// Source of the behaviour: torch/nn/parallel/distributed.py, 2.11.
#pragma once

#include <c10/core/ScalarType.h>
#include <torch/nn/module.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <vector>

#include "harness/measure/step_recorder.h"
#include "harness/sync/wrapper.h"
#include "models/autograd_node.h"
#include "models/model.h"

namespace gradsync::sync {

struct DdpOptions {
  // A bucket is closed when it reaches its cap; tensors are not split. Larger: fewer all-reduces,
  // later ones. The first bucket is small so that communication starts early.
  std::int64_t first_bucket_bytes = c10d::kDefaultFirstBucketBytes;  // 1 MiB
  std::int64_t bucket_cap_bytes = c10d::kDefaultBucketBytesCap;      // 25 MiB
  bool find_unused_parameters = false;
  bool static_graph = false;
  bool gradient_as_bucket_view = false;
  bool broadcast_buffers = true;
  // Type of gradients on the wire, two bytes each (make_compress_hook); unset: as they are.
  std::optional<at::ScalarType> compress_to = std::nullopt;
  // Forward runs under torch.autocast to it (models/autocast.h); unset: as parameters are.
  std::optional<at::ScalarType> autocast_to = std::nullopt;
  bool sync_batch_norm = false;               // normalize over all ranks: sync_batch_norm.h
  measure::StepRecorder* recorder = nullptr;  // records phases; may be null
};

// The last synchronized backward of this rank did not end: parameters that it waited for got no
// gradient. That backward itself reports nothing, and leaves this rank's own gradients, not the
// mean over the ranks. Ranks whose parameters all got a gradient wait for this rank in their
// backward. So the next forward is the first that can raise this error, and a rank that ends by it
// frees the others.
class UnfinishedReduction : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class DistributedDataParallel final : public Wrapper {
 public:
  // Verifies that all ranks have the same parameter shapes, gives every rank rank 0's parameters
  // and buffers, and builds the Reducer.
  // Collective: on all ranks, same order. Errors: CommError, c10::Error where shapes differ,
  // ConfigError where compress_to is to cast parameters that are not float32, or for
  // sync_batch_norm and a model without batch normalization.
  DistributedDataParallel(std::shared_ptr<models::Model> module,
                          c10::intrusive_ptr<c10d::ProcessGroup> process_group,
                          const DdpOptions& options);

  // Returns the loss, scalar, with its graph.
  // Collective when it synchronizes buffers or, once, rebuilds the buckets; with sync_batch_norm
  // always, and so is its backward.
  // Errors: ConfigError for static_graph whose first micro-batch is not synchronized;
  // UnfinishedReduction. Where grad mode is off, neither.
  at::Tensor forward(const models::Batch& batch) override;

  // Errors: ConfigError under find_unused_parameters: forward finds them.
  void trigger_sync_in_backward() override;
  // Returns the buckets as they are now (they change at the rebuild).
  std::vector<Collectives> declared(const std::vector<bool>& syncs) const override;

  // The Reducer's buckets as they are now (they change at the rebuild), and as they are sent.
  std::vector<std::int64_t> reduction_bytes() const override;
  std::optional<std::int64_t> gradient_bytes() const override;

  // Parameters that take part, in registration order.
  const std::vector<at::Tensor>& parameters() const override { return parameters_; }
  std::vector<std::string> parameter_names() const override;
  models::Model& module() override { return *module_; }
  // Whether buffers exist and are broadcast before a synchronizing forward.
  bool broadcasts_buffers() const { return options_.broadcast_buffers && !buffers_.empty(); }

  // torch's own record of what DDP did: a second opinion on times.
  at::DDPLoggingData logging_data() { return logger_->get_ddp_logging_data(); }

 private:
  void build_reducer();
  void rebuild_buckets();
  void compress_gradients();
  bool searches_for_unused() const {
    return options_.find_unused_parameters && !options_.static_graph;
  }
  std::int64_t bytes_sent_of(std::int64_t gradient_bytes) const;
  void before_forward();
  at::Tensor loss_of(const models::Batch& batch);
  at::Tensor after_forward(at::Tensor loss);
  void sync_buffers();
  std::vector<std::int64_t> buffer_bytes_by_dtype() const;

  std::shared_ptr<models::Model> module_;
  c10::intrusive_ptr<c10d::ProcessGroup> process_group_;
  DdpOptions options_;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> buffers_;
  std::shared_ptr<c10d::Reducer> reducer_;
  std::shared_ptr<c10d::Logger> logger_;
  std::vector<models::NodePtr> accumulators_;  // of gradients; hold hooks

  bool require_forward_param_sync_ = true;  // the last forward was a synchronized one
  bool delay_all_reduce_enqueued_ = false;  // static_graph: its first backward has been seen
};

// Gradients cross the wire in two bytes each: a DDP communication hook that casts a bucket before
// its all_reduce and back after.
//
// The sum over the ranks is made in the small type, too. fp16 keeps 11 bits of a gradient and ends
// at 65504; bf16 keeps 8 and has the range of float32.
// Source: torch/distributed/algorithms/ddp_comm_hooks/default_hooks.py, fp16_compress_hook and
// bf16_compress_hook. torch has the first in C++ as well, c10d::FP16CompressCommHook.
//
// Returns the hook for one Reducer: casts a bucket to `dtype`, divides it by the number of ranks,
// so that the sum stays in range, sums it over the ranks of `group`, and casts the mean back into
// the bucket. The small copy lives from the cast to the end of its all_reduce.
std::unique_ptr<c10d::CommHookInterface> make_compress_hook(
    c10::intrusive_ptr<c10d::ProcessGroup> group, c10::ScalarType dtype);

}  // namespace gradsync::sync
