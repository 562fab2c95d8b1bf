// The parameters that torch's fully_shard gathers and reduces together, and every tensor it makes
// for them: FSDPParamGroup of torch/distributed/fsdp/_fully_shard (2.11).
#pragma once

#include <cstdint>
#include <vector>

#include "harness/memory/jobs/job_memory.h"

namespace gradsync::memory {

// A rank's tensors that outlive a group's turn: FSDPCommContext.
struct ShardContext {
  MemoryAccount& account;
  std::vector<HeldTensor> kept_gather = {};  // the last gather's buffer, which the next one frees
  std::vector<HeldTensor> kept_reduce = {};  // the last reduction's input, likewise
};

class ShardGroup {
 public:
  // `parameters`: indices of the profile's.
  ShardGroup(const FullyShardJob& job, const models::MemoryProfile& profile,
             const std::vector<std::size_t>& parameters, bool is_root, ShardContext& context);

  bool empty() const { return whole_ == 0; }

  // fully_shard moves the whole parameters to the device, and leaves their shards.
  void shard();
  void make_moments();
  // The next step gathers what the optimizer changed, and finds no gradient.
  void end_step() {
    reshard();
    context_.account.free(shard_gradient_);
  }

  // Forward.
  void enter_forward();
  void leave_forward();

  // Backward: a gradient of the output came. Returns whether it is the first since the last
  // leave_backward(), so that the group before is to be gathered ahead.
  bool enter_backward();
  void gather();  // ahead, or now; does nothing where gathered, or on its way
  void leave_backward(bool sync);
  // The gradient of a parameter of the profile's was made.
  void take_gradient(std::size_t parameter, const HeldTensor& gradient);
  // After a backward: whether leave_backward() is still to come.
  bool is_left() const { return is_left_; }
  void end_backward() { is_left_ = false; }

 private:
  void finish_gather(bool in_forward);
  void reshard();
  void reduce();
  void free_gradients();
  void widen_gradients();
  bool has_gradients() const;
  // Returns the gradient of the last parameter, which is then no longer the group's.
  HeldTensor take_last();

  struct Parameter {
    std::size_t index;      // of the profile's
    std::int64_t elements;  // whole
    std::int64_t shard;     // of a rank, padding included
    bool trains;
  };

  const FullyShardJob& job_;
  ShardContext& context_;
  bool is_root_;
  std::vector<Parameter> parameters_;
  std::int64_t shard_ = 0;  // elements of all shards of a rank, padding included
  std::int64_t whole_ = 0;  // of all ranks
  std::int64_t trained_whole_ = 0;
  std::int64_t trained_shard_ = 0;
  std::vector<HeldTensor> buffer_;          // that it is gathered into
  std::vector<HeldTensor> gathered_;        // parameters
  std::vector<HeldTensor> gradients_;       // unsharded, as autograd made them, by parameter
  std::vector<HeldTensor> widened_;         // those cast to be added up in another type
  std::vector<HeldTensor> shard_gradient_;  // of all parameters
  bool is_gathering_ = false;
  bool is_gathered_ = false;
  bool is_in_backward_ = false;
  bool is_left_ = false;
};

}  // namespace gradsync::memory
