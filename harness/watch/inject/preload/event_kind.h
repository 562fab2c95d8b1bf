// What kinds of events there are, and words of theirs. Compiled into the job as well: it needs
// nothing of the rest.
#pragma once

#include <string_view>

namespace gradsync::watch {

enum class EventKind {
  Forward,     // of a wrapped model; `name`: "DistributedDataParallel", "FullyShardedDataParallel",
               // "fully_shard", "replicate", "replicate over DDP"; `detail`: words, of which
               // "no_grad", "eval" and "no_sync" (the wrapper's flag was off) have a meaning; empty
               // also where nothing is known
  Backward,    // one run of autograd; `detail`: gradients that it accumulated, "0" where it was
               // torch.autograd.grad or its like; empty: not known
  Collective,  // `name`: "all_reduce", "broadcast", "reduce_scatter", "all_gather", ...
  OptimizerStep,  // `name`: "AdamW", ...; `detail`: "skipped" where a gradient scaler left it out;
                  // within a backward "of=MODEL" for each model of which it has parameters
  NoSyncEnter,    // the hook alone sees these two: `file` and `line` of the `with`
  NoSyncLeave,
  Wrap,  // a model was wrapped; `name`: the wrapper, `detail`: its options as "name=value" words
  Sync,  // a flag of fully_shard's is set to `detail`, "true" or "false"; `name`: the method;
         // empty: set_requires_gradient_sync
  ZeroGrad,  // gradients were cleared; what later micro-batches add starts from nothing; `detail`:
             // kByHand where the job did so, or changed them, by itself and not by zero_grad()
  GradientUse,  // the job needs gradients as they are here: `detail` kRead, it read one, or
                // kParameters, it changed parameters and not by an optimizer; kUnclear, in files
                // that others wrote: it may
  CommHook,     // DDP was given a hook that reduces in its place, by whatever means
  Call,  // the job has ranks meet, or reads a device, from when it calls until it goes on; `name`:
         // "barrier", "all_gather_object", "all_reduce", ... or kHostRead and what reads; `detail`
         // of a collective: the type of its tensor, and how it is reduced if not by default, as
         // "int64 max"
  Work,  // what one operator of torch's did between two ends of optimizer steps (OperatorTotal)
  InnerForward,  // of a wrapped model within the forward of another; as Forward, and in `detail`
                 // "inside=NAME", as the outer model calls it
};

// The `detail` of a call of NCCL's, which has no process group's name.
inline constexpr const char* kNcclCall = "NCCL";
inline constexpr const char* kNcclCaptured = "NCCL captured";  // into a CUDA graph, to run later
inline constexpr const char* kNcclReplayed = "NCCL replayed";  // by a launch of such a graph

// Ranges and nodes as torch itself names them: the node that adds to a gradient.
inline constexpr std::string_view kAccumulate = "torch::autograd::AccumulateGrad";

// "Optimizer.step#AdamW.step"
inline constexpr std::string_view kOptimizer = "Optimizer.step#";

}  // namespace gradsync::watch
