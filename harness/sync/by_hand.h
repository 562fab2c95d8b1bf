// Data parallelism by hand: the four steps of DDP in the order in which one would first write them.
//
//   1. broadcast    every rank starts from rank 0's parameters     (the constructor)
//   2. split        each rank trains on its own micro-batches      (models/data.h)
//   3. local work   forward and backward, no communication         (forward)
//   4. average      gradients are summed over the ranks, divided   (after_backward)
//
// DDP adds only overlap to it: here no reduction begins before backward has ended. Without the
// fourth step the replicas drift apart (run/trained_parameters.h). Buffers stay as each rank has
// them.
#pragma once

#include <memory>
#include <vector>

#include "harness/comm/process_groups.h"
#include "harness/measure/step_recorder.h"
#include "harness/sync/wrapper.h"
#include "models/autograd_node.h"

namespace gradsync::sync {

enum class Reduction {
  None,          // no communication after the first broadcast
  PerParameter,  // an all_reduce for each, one after the other
  Coalesced      // one all_reduce: gradients are copied into one message and back
};

class ByHand final : public Wrapper {
 public:
  // Gives every rank rank 0's parameters. `recorder` records phases; may be null.
  // Collective: on all ranks. Errors: CommError; ConfigError for a model without parameters.
  ByHand(std::shared_ptr<models::Model> module,
         c10::intrusive_ptr<c10d::ProcessGroup> process_group, Reduction reduction,
         measure::StepRecorder* recorder);

  // Returns the loss. Its backward ends with the reductions, unless no_sync holds then or
  // gradients are not enabled now. Local; that backward is collective.
  at::Tensor forward(const models::Batch& batch) override;

  const std::vector<at::Tensor>& parameters() const override { return parameters_; }
  std::vector<std::string> parameter_names() const override;
  std::vector<Collectives> declared(const std::vector<bool>& syncs) const override;
  std::vector<std::int64_t> reduction_bytes() const override;
  std::optional<std::int64_t> gradient_bytes() const override;
  models::Model& module() override { return *module_; }

 private:
  void after_backward();
  std::vector<at::Tensor> gradients();
  void reduce_each(std::vector<at::Tensor>& gradients);
  void reduce_coalesced(std::vector<at::Tensor>& gradients);
  void all_reduce(const at::Tensor& tensor);
  void enter(measure::Phase phase);

  std::shared_ptr<models::Model> module_;
  c10::intrusive_ptr<c10d::ProcessGroup> process_group_;
  Reduction reduction_;
  measure::StepRecorder* recorder_;
  std::vector<at::Tensor> parameters_;
  std::vector<models::NodePtr> accumulators_;  // of gradients; hold hooks
};

}  // namespace gradsync::sync
