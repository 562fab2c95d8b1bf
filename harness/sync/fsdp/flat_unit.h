// A unit's parameters as one flat tensor: each rank keeps a shard of it, and the whole exists only
// while the unit computes.
//
//   parameters  [ w1 ............ | b1 .. | w2 ............ | b2 .. | padding ]   one flat tensor
//   shards      [      rank 0          |        rank 1         |   rank 2   ..]   equal parts
//
// Frozen parameters, which have no gradient, are a flat tensor of their own. A unit with both still
// gathers once: each rank gives its two shards, one behind the other, and what arrives is copied to
// where it belongs, as torch's fully_shard copies every gather. What has a gradient is reduced.
//
// The model's parameters are views of the flat tensor's storage, for good. Resharding frees that
// storage under them, and gathering fills it again, so that autograd's saved weights see the values
// when backward needs them. In between, no code may read them.
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
#include <optional>
#include <string>
#include <vector>

#include "harness/memory/flat_layout.h"
#include "harness/sync/collectives.h"
#include "harness/sync/copies.h"
#include "harness/sync/wrapper.h"

namespace gradsync::sync {

// The groups of ranks that share parameters. Hybrid sharding has both; a rank's shard is then the
// same on every rank of its `replicate` group.
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
  // `offload`: shards and their gradients live on the host. Nothing: with the parameters.
  // Errors: ConfigError for a unit with fewer elements than ranks that share it, or parameters of
  // different dtypes.
  FlatUnit(std::string name, std::vector<at::Tensor> parameters, const FsdpGroups& groups,
           const UnitDtypes& dtypes, const Casts& casts = Casts(nullptr),
           const std::optional<HostCopies>& offload = std::nullopt);

  const std::string& name() const { return name_; }
  std::size_t size() const { return parameters_.size(); }
  // How many of its parameters are trained: the first ones.
  std::size_t trained() const { return trained_.layout.offsets.size(); }
  bool is_all_trained() const { return trained() == size(); }
  const at::Tensor& parameter(std::size_t i) const { return parameters_[i]; }
  // This rank's part of what is trained, a leaf for the optimizer, in the dtype the parameters had.
  // [padded / ranks]; undefined where all is frozen.
  const at::Tensor& shard() const { return trained_.shard; }
  UnitTraffic traffic() const;
  // The flat tensor of what is trained as one gradient, of which this rank reads its shard.
  GradientSource gradient_source() const;

  // Allocates the whole parameters and begins to gather them; nothing where they are there or under
  // way. Collective.
  void start_gather();
  bool gathering() const { return gather_ != nullptr; }
  // Blocks until they are there. Errors: CommError's causes.
  void finish_gather();
  // Frees them. Nothing may need them before the next gather.
  void reshard();

  // Moves the gradient of trained parameter `i`, which autograd has just stored, into the unsharded
  // one.
  void take_gradient(std::size_t i);
  // True when the gradients of all that is trained have been taken in this backward.
  bool has_all_gradients() const { return taken_ == trained(); }
  // The gradients of the next backward add to those kept.
  void begin_backward() { taken_ = 0; }

  // Begins to reduce the unsharded gradient and gives up its memory when that ends. Parameters that
  // had no gradient count as zero; nothing where all is frozen. Collective, also where this rank
  // had no gradient at all.
  void start_reduce();
  // Blocks until the mean over all ranks has been added to shard().grad().
  void finish_reduce();

 private:
  // What is trained, or what is frozen; without tensors where nothing is.
  struct Part {
    std::size_t first = 0;  // its first parameter
    memory::FlatLayout layout;
    at::Tensor shard;     // [padded / ranks]
    at::Tensor gathered;  // [padded], its storage often empty
    std::int64_t shard_elements(std::int64_t ranks) const { return layout.padded / ranks; }
  };

  void check_parameters() const;
  Part part_of(std::size_t first, std::size_t end) const;
  void make_shards();
  void shard_values_of_rank_zero(Part& part);
  void make_gathered(Part& part);
  // The place of the part's parameter `i` in `flat`, which is laid out as the part is.
  at::Tensor view_in(const at::Tensor& flat, const Part& part, std::size_t i) const;
  bool has_both() const { return trained_.layout.padded > 0 && frozen_.layout.padded > 0; }
  void copy_out();
  // Both shards as they are gathered: on the device, in that dtype.
  at::Tensor gather_input() const;
  void ensure_unsharded_gradient();
  at::Tensor on_host(const at::Tensor& mean) const;
  void add_to_shard_gradient(at::Tensor mean);

  std::string name_;
  std::vector<at::Tensor> parameters_;  // the trained ones, then the frozen ones
  FsdpGroups groups_;
  UnitDtypes dtypes_;
  Casts casts_;
  std::optional<HostCopies> offload_;
  at::Device device_;  // of what is whole

  Part trained_;
  Part frozen_;
  at::Tensor shards_;         // both parts' shards, one behind the other
  at::Tensor gather_input_;   // gather_input(), while gathering
  at::Tensor gather_output_;  // [ranks, both shards], while a unit with both is gathered
  c10::intrusive_ptr<c10d::Work> gather_;
  bool is_gathered_ = false;

  at::Tensor unsharded_gradient_;  // [padded], of what is trained
  std::vector<bool> written_;      // which trained parameters' places in it hold something
  std::size_t taken_ = 0;
  at::Tensor reduce_output_;  // [padded / ranks]
  c10::intrusive_ptr<c10d::Work> reduce_;
};

}  // namespace gradsync::sync
