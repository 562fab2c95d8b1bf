// FullyShardedDataParallel in C++: every rank keeps a part of each parameter, gradient and moment,
// and a unit's whole parameters exist only while that unit computes.
//
//   forward   gather unit i | compute | free it                         i = 0, 1, ...
//   backward  gather unit i | compute | free it | reduce its gradient   i = ..., 1, 0
//
// With prefetch, the next unit is gathered while this one computes, and a reduce goes on while the
// next unit computes; one reduce at a time, so that at most two unsharded gradients exist. In
// backward that is the unit before, as in fully_shard, also where it is frozen and has no backward.
//
// Whether gradients are reduced is decided where they are complete: in backward. So a no_sync that
// encloses backward alone works here, where under DDP it does nothing; and a gradient that is not
// reduced is kept whole, which is what no_sync costs in memory. sync_each_batch reduces every time
// and keeps shards.
// Source of the behaviour: torch's fully_shard, 2.11 (torch/distributed/fsdp/_fully_shard/).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "harness/sync/fsdp/flat_unit.h"
#include "harness/sync/wrapper.h"
#include "models/autograd_node.h"

namespace gradsync::sync {

struct FsdpOptions {
  // Free a unit's parameters between its forward and its backward, and gather them twice
  // (FULL_SHARD). False: keep them (SHARD_GRAD_OP). What is in no unit is kept in either case.
  bool reshard_after_forward = true;
  // Free them after backward. False: keep them until the micro-batch that reduces, so that the
  // others gather only what they freed after forward.
  bool reshard_after_backward = true;
  at::ScalarType param_dtype = at::kFloat;   // gathered parameters and compute
  at::ScalarType reduce_dtype = at::kFloat;  // gradients on the wire
  // Unsharded gradients accumulate in reduce_dtype (fully_shard); false: in param_dtype (FSDP1).
  bool accumulate_in_reduce_dtype = true;
  bool prefetch = true;  // gather one unit ahead
  bool offload_parameters =
      false;  // shards and their gradients live on the host (memory/memory_account.h)
  measure::StepRecorder* recorder = nullptr;  // records phases; may be null
};

class FullyShardedDataParallel final : public Wrapper, private models::UnitHooks {
 public:
  // Shards `module` by its units(); parameters in none of them form the root unit. All ranks get
  // rank 0's values. Buffers stay as they are. Frozen parameters are shared and gathered like the
  // others; a unit with some is freed when the gradient of its input is complete.
  // Collective: on all ranks, same order. Errors: ConfigError for a model without units, or a unit
  // that cannot be shared (see FlatUnit).
  FullyShardedDataParallel(std::shared_ptr<models::Model> module, const FsdpGroups& groups,
                           const FsdpOptions& options);
  ~FullyShardedDataParallel() override;

  // Collective: gathers parameters. Errors: CommError's causes; c10::OutOfMemoryError.
  at::Tensor forward(const models::Batch& batch) override;

  bool replicates() const override { return false; }
  // Shards of what is trained, [elements / ranks] each: the root unit's first, then in the order of
  // forward. On the host where they are offloaded.
  const std::vector<at::Tensor>& parameters() const override { return shards_; }
  std::vector<std::string> parameter_names() const override;
  std::vector<GradientSource> gradient_sources() const override;
  std::vector<Collectives> declared(const std::vector<bool>& syncs) const override;
  std::vector<std::int64_t> reduction_bytes() const override;
  models::Model& module() override { return *module_; }
  // As fully_shard calls a shard's post-accumulate hooks: after each reduction of a unit.
  void step_in_backward(const std::function<void()>& step) override { step_ = step; }

  // Returns parameter `name` whole, as it is now. Collective. For checks, not for training.
  at::Tensor whole_parameter(const std::string& name);

 private:
  at::Tensor before_forward(std::size_t unit, at::Tensor input) override;
  at::Tensor after_forward(std::size_t unit, at::Tensor output) override;

  void add_units(const FsdpGroups& groups);
  void watch_gradients(FlatUnit& unit, std::optional<std::size_t> index);
  // Makes a unit's parameters available, then begins to gather `next`, if there is one.
  void gather(FlatUnit& unit, FlatUnit* next);
  FlatUnit* unit_at(std::size_t index);

  void begin_backward();
  void before_backward(std::size_t unit);
  void after_backward(FlatUnit& unit);
  void end_backward();
  // Blocks until the reduce that is under way, if any, has ended.
  void finish_reduce();
  void step();

  std::shared_ptr<models::Model> module_;
  FsdpOptions options_;
  std::unique_ptr<FlatUnit> root_;                // null where every parameter is in a unit
  std::vector<std::unique_ptr<FlatUnit>> units_;  // null where a unit has no parameters
  std::vector<bool> runs_backward_;  // by unit, as the last forward with a graph had it
  std::vector<at::Tensor> shards_;
  std::vector<models::NodePtr> accumulators_;  // kept alive for their hooks

  measure::Phase phase_ = measure::Phase::Forward;  // to return to after a wait
  std::size_t first_done_ = 0;  // units from here on have finished this backward
  FlatUnit* reducing_ = nullptr;
  std::function<void()> step_;  // in backward; may be empty
};

}  // namespace gradsync::sync
