// The wrapper that a strategy trains: a model whose gradients are synchronized over the ranks.
//
// The wrapper (DDP, FSDP, a step on the road to DDP) says how gradients are synchronized, the
// strategy says when. All wrappers have the one flag that no_sync clears. They differ in where it
// is read, and that decides what an improper no_sync does: DDP reads it in forward, the others in
// backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/errors.h"
#include "harness/measure/step_recorder.h"
#include "harness/sync/collectives.h"
#include "models/model.h"

namespace gradsync::sync {

// Where the gradients that an optimizer reads come from, for the account.

// A gradient that the optimizer reads, and the parameters whose gradients go into it. All in
// elements.
struct GradientSource {
  struct Part {
    at::Tensor parameter;     // whose gradient autograd accumulates
    std::int64_t offset = 0;  // of it in the whole
  };
  at::Tensor read;            // the optimizer reads its grad(): a parameter, or a shard
  std::int64_t elements = 0;  // of the whole
  std::int64_t offset = 0;    // of what is read, in the whole
  std::vector<Part> parts;
};

class Wrapper;

// While it lives, gradients of its model only accumulate, on this rank. Restores what it found, so
// that guards nest, and does so on exceptions too.
class NoSyncGuard {
 public:
  explicit NoSyncGuard(Wrapper& model);
  ~NoSyncGuard();
  NoSyncGuard(const NoSyncGuard&) = delete;
  NoSyncGuard& operator=(const NoSyncGuard&) = delete;

 private:
  Wrapper& model_;
  bool previous_;
};

class Wrapper {
 public:
  virtual ~Wrapper() = default;

  // Returns the loss, scalar, with its graph. Collective: all ranks.
  virtual at::Tensor forward(const models::Batch& batch) = 0;

  // Use as `auto guard = model.no_sync();` around forward *and* backward.
  NoSyncGuard no_sync() { return NoSyncGuard(*this); }
  // False inside no_sync.
  bool require_backward_grad_sync() const { return require_backward_grad_sync_; }

  // Makes the next backward, and no later one, reduce gradients although its forward ran under
  // no_sync. This is for wrappers that read the flag in forward. A wrapper that reads it in
  // backward, as FSDP does, reduces outside of no_sync anyway, and does nothing here. Local.
  // Errors: ConfigError if forward must have seen what backward will use.
  virtual void trigger_sync_in_backward() {}

  // From now on calls `step` in backward whenever gradients of some of parameters() are final; the
  // other parameters have none then. An optimizer that steps and drops gradients there need not
  // hold all of them.
  // Errors: ConfigError if the wrapper holds gradients to the end of backward in any case.
  virtual void step_in_backward(const std::function<void()>& step) {
    throw ConfigError("optimizer_in_backward: got true, expected false but under wrapper fsdp");
  }

  // Returns what the optimizer steps: whole parameters, or this rank's shards of them.
  virtual const std::vector<at::Tensor>& parameters() const = 0;
  // Returns their names in messages, in the same order: "parameter ...", or "unit ...".
  virtual std::vector<std::string> parameter_names() const = 0;
  // Returns where their gradients come from, in the same order: each from itself, unless they are
  // shards.
  virtual std::vector<GradientSource> gradient_sources() const;

  // Returns what a steady step communicates if micro-batch i reduces gradients where syncs[i].
  virtual std::vector<Collectives> declared(const std::vector<bool>& syncs) const = 0;

  // Returns the bytes of each reduction of a synchronized micro-batch, in order: DDP's buckets,
  // FSDP's units.
  virtual std::vector<std::int64_t> reduction_bytes() const = 0;

  // Returns what reduction_bytes must add up to: the bytes of the model's trained gradients as they
  // are sent, counted parameter by parameter and not by the code that plans the reductions. Nothing
  // if they are padded, or not reduced.
  virtual std::optional<std::int64_t> gradient_bytes() const { return std::nullopt; }

  // Returns whether every rank has all parameters; they are equal on all ranks if gradients are
  // synchronized.
  virtual bool replicates() const { return true; }

  virtual models::Model& module() = 0;

 private:
  friend class NoSyncGuard;
  bool require_backward_grad_sync_ = true;
};

inline std::vector<GradientSource> Wrapper::gradient_sources() const {
  std::vector<GradientSource> sources;
  for (const at::Tensor& parameter : parameters()) {
    sources.push_back({parameter, parameter.numel(), 0, {{parameter, 0}}});
  }
  return sources;
}

inline NoSyncGuard::NoSyncGuard(Wrapper& model)
    : model_(model), previous_(model.require_backward_grad_sync_) {
  model_.require_backward_grad_sync_ = false;
}

inline NoSyncGuard::~NoSyncGuard() {
  model_.require_backward_grad_sync_ = previous_;
}

// When is a sync due? This one pure function, for every strategy and for Accelerate's API.
//
// Returns true when the gradients of this micro-batch must be reduced over the ranks: when it
// completes a window of `num_steps`, or is the last one of the data.
//   micro_batch  1 for the first micro-batch since the last window that the data's end closed
//   last_of_data the data ends with it, so that a short window is closed (Accelerate's
//                sync_with_dataloader)
// Source: Accelerate's Accelerator._do_sync.
constexpr bool sync_due(std::int64_t micro_batch, std::int64_t num_steps, bool last_of_data) {
  return last_of_data || micro_batch % num_steps == 0;
}

}  // namespace gradsync::sync
