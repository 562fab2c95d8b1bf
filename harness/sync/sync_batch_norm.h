// SyncBatchNorm: batch normalization with the statistics of all ranks' micro-batches, in C++.
//
// A rank that sees cats alone normalizes by the mean and variance of cats, and its running averages
// become those of cats. Here every layer asks the other ranks: forward gathers each rank's mean,
// variance and number of values, backward sums two gradients per channel. Both are about
// activations, not about parameters' gradients, so they happen in every micro-batch, and no_sync
// spares none of them. Their cost is time spent waiting: a layer cannot continue without the
// answer.
//
// LibTorch's own kernels for it (batch_norm_stats and its kind) are for GPUs alone, and
// torch.nn.SyncBatchNorm refuses the CPU. Here it is written with elementary operations, for any
// device; it communicates as often as torch's, and as many bytes.
// Source: torch/nn/modules/_functions.py, 2.11. Combining variances: Chan, Golub and LeVeque 1979.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <vector>

#include "harness/measure/step_recorder.h"
#include "models/model.h"

namespace gradsync::sync {

// From now on, in training, every BatchNorm2d of `module` normalizes with the ranks of `group`: its
// forward and its backward are collective, on all ranks, in the same order. In evaluation, and on
// one rank, nothing changes. A rank's micro-batch may have any number of values, but not none.
// `recorder` records the waits; it may be null, and must outlive `module`'s use.
// Local. Errors: ConfigError for a module without BatchNorm2d.
void synchronize_batch_norm(models::Model& module,
                            const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                            measure::StepRecorder* recorder);

// Returns the channels of each BatchNorm2d, in order of registration, which is that of forward.
std::vector<std::int64_t> batch_norm_channels(const models::Model& module);

}  // namespace gradsync::sync
