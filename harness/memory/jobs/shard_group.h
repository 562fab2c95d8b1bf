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
  std::int64_t kept_gather_bytes = 0;  // the last gather's buffer, which the next one lets go
  std::int64_t kept_reduce_bytes = 0;  // the last reduction's input, likewise
};

class ShardGroup {
 public:
  // `parameters`: indices of the profile's. Shards and moments are held from here on.
  ShardGroup(const FullyShardJob& job, const models::MemoryProfile& profile,
             const std::vector<std::size_t>& parameters, bool is_root, ShardContext& context);

  bool empty() const { return whole_ == 0; }

  // Forward.
  void enter_forward();
  void leave_forward();

  // Backward: a gradient of the output came. Returns whether it is the first since the last
  // leave_backward(), so that the group before is to be gathered ahead.
  bool enter_backward();
  void gather();  // ahead, or now; does nothing where gathered, or on its way
  void leave_backward(bool sync);
  // A parameter's gradient of `bytes` is complete; `is_made`: it was not there before.
  void take_gradient(std::int64_t bytes, bool is_made);
  // After a backward: whether leave_backward() is still to come.
  bool is_left() const { return is_left_; }
  void end_backward() { is_left_ = false; }

 private:
  void finish_gather(bool in_forward);
  void reshard();
  void reduce();
  void free_gradients();
  void widen_gradients();

  const FullyShardJob& job_;
  ShardContext& context_;
  bool is_root_;
  std::int64_t shard_ = 0;  // elements of all shards of a rank, padding included
  std::int64_t whole_ = 0;  // of all ranks
  std::int64_t trained_whole_ = 0;
  std::int64_t trained_shard_ = 0;
  std::int64_t last_trained_ = 0;    // elements of the last parameter that trains
  std::int64_t gradient_bytes_ = 0;  // unsharded, as autograd made them
  std::int64_t widened_bytes_ = 0;   // of those cast to be added up in another type
  bool is_gathering_ = false;
  bool is_gathered_ = false;
  bool is_in_backward_ = false;
  bool is_left_ = false;
  bool has_shard_gradient_ = false;
};

}  // namespace gradsync::memory
