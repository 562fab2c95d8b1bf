// Selective activation checkpointing: operations whose outputs a checkpointed stretch keeps, so
// that its second run takes them from there and does not compute them again.
//
//   matmul     mm, addmm, bmm and baddbmm, and fused attention
//   attention  fused attention; where it is spelled out, its second product (AttentionScope)
//
// As torch.utils.checkpoint.create_selective_checkpoint_contexts, torch 2.11, that is done below
// autograd, which builds its graph and saves for backward as ever. So gradients are the same bits.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "models/unit_levers.h"

namespace gradsync::models {

// Outputs of a stretch, operation by operation.
class KeptResults {
 public:
  explicit KeptResults(KeptOutputs which) : which_(which) {}

  KeptOutputs which() const { return which_; }
  // Keeps the outputs of the operation that ran.
  void keep(const std::vector<c10::IValue>& outputs);
  // Hands out the outputs of the operation that would run next, and drops them.
  // Errors: ConfigError if there are none, or if one was changed in place since it was kept.
  std::vector<c10::IValue> take();
  // Drops the rest, which is no longer needed.
  void clear() { kept_.clear(); }

 private:
  struct Output {
    c10::IValue value;
    std::int64_t version = 0;  // of a tensor, which each change in place moves on
  };

  KeptOutputs which_;
  std::deque<std::vector<Output>> kept_;
};

// While it lives, operations of this thread keep their outputs in `results` (First), or are given
// them from there and do not run (Again).
class SelectiveScope {
 public:
  enum class Run { First, Again };

  SelectiveScope(KeptResults& results, Run run);
  ~SelectiveScope();
  SelectiveScope(const SelectiveScope&) = delete;
  SelectiveScope& operator=(const SelectiveScope&) = delete;

  KeptResults& results() const { return results_; }
  Run run() const { return run_; }

 private:
  KeptResults& results_;
  Run run_;
  SelectiveScope* outer_;
  c10::impl::IncludeDispatchKeyGuard stepped_around_;
};

// Around attention that may be spelled out: a product for scores, and one of these with values.
class AttentionScope {
 public:
  AttentionScope();
  ~AttentionScope();
  AttentionScope(const AttentionScope&) = delete;
  AttentionScope& operator=(const AttentionScope&) = delete;

 private:
  int products_ = 0;  // that ran
  int* outer_;
};

// Whether products of this thread keep their outputs, which must not be changed in place then.
bool keeps_products();

}  // namespace gradsync::models
