// The memory of one FSDP unit: each function holds and frees what FlatUnit (flat_unit.cpp)
// allocates when it does the same. No torch.
//
// Units of equal size hold tensors of equal size at the same time, and may free the older one
// first. So each unit frees its own tensor, not the latest of that size.
//
// Before a step, on a GPU:
//
//   hold_parameters     the model as it was built, every parameter by itself
//   shard_parameters    the unit's shard stays; the whole unit is copied to cut it, then all goes
//   hold_optimizer_state
//
// In a step: start_gather and finish_gather, begin_backward, take_gradient for each parameter,
// start_reduce and finish_reduce, reshard. After it: clear_gradient.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "harness/memory/fsdp_memory.h"
#include "harness/memory/memory_account.h"

namespace gradsync::memory {

struct FsdpAccounts {
  MemoryAccount& device;
  MemoryAccount& host;
};

class FsdpUnit {
 public:
  // `trained` and `frozen` are the sizes of its parameters, in elements.
  FsdpUnit(const std::vector<std::int64_t>& trained, const std::vector<std::int64_t>& frozen,
           const FsdpMemory& memory, const FsdpAccounts& accounts);

  void hold_parameters();
  void shard_parameters();
  // The shard alone: what shard_parameters leaves.
  void hold_shard();
  void hold_optimizer_state();

  bool empty() const { return gathers_ == 0; }
  std::int64_t gradient_bytes() const { return part_ * memory_.stored_bytes; }  // a shard's
  bool trains() const { return whole_ > 0; }
  bool is_all_trained() const { return frozen_.empty(); }

  void start_gather();
  void finish_gather();
  void reshard();
  // Frees what was gathered ahead and then not needed.
  void forget_gather();
  // The gradients of the next backward add to those kept.
  void begin_backward();
  bool has_all_gradients() const { return taken_ == trained_.size(); }
  // Takes a parameter's gradient, which stays until autograd frees it.
  void take_gradient(std::int64_t bytes);
  void start_reduce();
  void finish_reduce();
  void clear_gradient();

 private:
  void cut_shard(std::vector<HeldTensor>& parameters, std::int64_t gathered_bytes);
  void add_to_kept(std::int64_t bytes);
  void step();
  void ensure_gradient();
  void add_to_shard_gradient();
  void add_to_host_gradient();
  // The first is the shard's gradient; a later one is added to it and freed.
  void keep_or_add(const HeldTensor& gradient);
  void hold_gather_input();

  // Bytes of what is trained, and of what is not.
  std::array<std::int64_t, 2> gathered_parts() const {
    return {whole_ * memory_.param_bytes, (gathers_ - whole_) * memory_.param_bytes};
  }
  std::int64_t shards() const { return gathers_ / memory_.ranks * memory_.stored_bytes; }
  std::int64_t shard_copy() const { return memory_.offload == Offload::Parameters ? shards() : 0; }
  bool casts_gradient() const { return memory_.gradient_bytes != memory_.reduce_bytes; }
  std::int64_t gather_cast() const;
  // If some parameters are frozen and some are not, both arrive in one tensor and are copied out of
  // it.
  std::int64_t by_rank() const {
    return trains() && !is_all_trained() ? gathers_ * memory_.param_bytes : 0;
  }
  std::int64_t on_the_wire() const { return whole_ * memory_.reduce_bytes; }

  const FsdpMemory& memory_;
  MemoryAccount& account_;
  MemoryAccount& host_;
  MemoryAccount& home_;  // where shards and their gradients are
  std::vector<std::int64_t> trained_;
  std::vector<std::int64_t> frozen_;
  std::int64_t whole_;                                 // elements of what is trained
  std::int64_t part_;                                  // a rank's of them
  std::int64_t gathers_;                               // with what is frozen
  std::array<std::vector<HeldTensor>, 2> parameters_;  // as built: trained, frozen
  std::vector<HeldTensor> gathered_tensors_;
  std::optional<HeldTensor> gradient_;  // whole; cast for the wire once it is being reduced
  HeldTensor reduced_{};
  std::optional<HeldTensor> shard_gradient_;
  bool gathering_ = false;
  bool gathered_ = false;
  bool kept_ = false;  // there was a gradient when this backward began
  std::size_t taken_ = 0;
};

}  // namespace gradsync::memory
