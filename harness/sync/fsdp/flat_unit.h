// A unit's parameters as one flat tensor: each rank keeps a shard of it, and all of it is there
// only while the unit computes.
//
//   parameters  [ w1 ............ | b1 .. | w2 ............ | b2 .. | padding ]   one flat tensor
//   shards      [      rank 0          |        rank 1         |   rank 2   ..]   equal parts
//
// The model's parameters are views of the flat tensor's storage, for good. Resharding frees that
// storage under them, and gathering fills it again, so that autograd's saved weights see the values
// when backward needs them. In between nobody may look.
//
// The gradient goes the other way: each parameter's is moved into one flat, unsharded gradient as
// soon as autograd has it; a reduce-scatter turns that into this rank's part of the mean.
//
// Source of the behaviour: torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py, 2.11; flat
// parameters as in torch's FullyShardedDataParallel (FSDP1). torch's fully_shard cuts every
// parameter along its first dimension instead: other padding, and copies into and out of the
// collectives' buffers, which flat units do not need.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "harness/sync/collectives.h"

namespace gradsync::sync {

// Who holds what. Hybrid sharding has both groups; a rank's shard is then the same on every rank of
// its `replicate` group.
struct FsdpGroups {
  c10::intrusive_ptr<c10d::ProcessGroup> shard;      // ranks that hold one copy between them
  c10::intrusive_ptr<c10d::ProcessGroup> replicate;  // ranks that hold the same part; may be null
};

struct UnitDtypes {
  at::ScalarType param = at::kFloat;     // gathered parameters, and so compute
  at::ScalarType gradient = at::kFloat;  // the unsharded gradient while it accumulates
  at::ScalarType reduce = at::kFloat;    // on the wire
};

class FlatUnit {
 public:
  // Takes over `parameters`: shards rank 0's values and points the parameters at storage that is
  // empty until the first gather. Parameters without memory have no values: then shards hold
  // whatever their memory held. Collective: all ranks of both groups, same order.
  // Errors: ConfigError for a unit with fewer elements than ranks that share it, or parameters of
  // different dtypes.
  FlatUnit(std::string name, std::vector<at::Tensor> parameters, const FsdpGroups& groups,
           const UnitDtypes& dtypes);

  const std::string& name() const { return name_; }
  std::size_t size() const { return parameters_.size(); }
  const at::Tensor& parameter(std::size_t i) const { return parameters_[i]; }
  // This rank's part, a leaf for the optimizer, in the dtype the parameters had. [padded / ranks]
  const at::Tensor& shard() const { return shard_; }
  UnitTraffic traffic() const;

  // Allocates the whole parameters and begins to gather them; nothing where they are there or under
  // way. Collective.
  void start_gather();
  bool gathering() const { return gather_ != nullptr; }
  // Blocks until they are there. Errors: CommError's causes.
  void finish_gather();
  // Frees them. Nothing may need them before the next gather.
  void reshard();

  // Moves the gradient of parameter `i`, which autograd has just stored, into the unsharded one.
  void take_gradient(std::size_t i);
  // True when every parameter's gradient of this backward has been taken.
  bool has_all_gradients() const { return taken_ == parameters_.size(); }
  // The gradients of the next backward add to those kept.
  void begin_backward() { taken_ = 0; }

  // Begins to reduce the unsharded gradient and gives up its memory when that ends. Parameters that
  // had no gradient count as zero. Collective, also where this rank had no gradient at all.
  void start_reduce();
  // Blocks until the mean over all ranks has been added to shard().grad().
  void finish_reduce();

 private:
  void shard_values_of_rank_zero();
  at::Tensor unsharded_view(const at::Tensor& flat, std::size_t i) const;
  void ensure_unsharded_gradient();
  void add_to_shard_gradient(at::Tensor mean);

  std::string name_;
  std::vector<at::Tensor> parameters_;
  std::vector<std::int64_t> offsets_;  // in elements, of each parameter in the flat tensor
  std::int64_t elements_ = 0;          // without padding
  std::int64_t padded_ = 0;
  FsdpGroups groups_;
  UnitDtypes dtypes_;

  at::Tensor shard_;
  at::Tensor gathered_;      // [padded], its storage often empty
  at::Tensor gather_input_;  // the shard in the gathered dtype, while gathering
  c10::intrusive_ptr<c10d::Work> gather_;
  bool is_gathered_ = false;

  at::Tensor unsharded_gradient_;  // [padded]
  std::vector<bool> written_;      // which parameters' parts of it hold something
  std::size_t taken_ = 0;
  at::Tensor reduce_output_;  // [padded / ranks]
  c10::intrusive_ptr<c10d::Work> reduce_;
};

}  // namespace gradsync::sync
