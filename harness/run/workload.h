// What stays resident in a rank for the whole launch: one model with its wrapper, optimizer and
// data, shared by every strategy that trains it, so that strategies differ in when they synchronize
// and in nothing else (same memory, same buckets, same placement).
#pragma once

#include <memory>

#include "harness/comm/agreement.h"
#include "harness/comm/gpu.h"
#include "harness/comm/ledger.h"
#include "harness/launch/launch_spec.h"
#include "harness/measure/step_recorder.h"
#include "harness/plan/plan.h"
#include "harness/results/model_info.h"
#include "harness/sync/fsdp/flat_unit.h"
#include "harness/sync/strategies/strategy.h"

namespace gradsync::run {

// What a rank has for all of its workloads.
struct RankContext {
  const launch::LaunchSpec& spec;
  int rank;
  int node;
  int world_size;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  comm::Agreement& agreement;  // of the ranks that exist
  sync::FsdpGroups hybrid;     // where a trial shards inside nodes; else empty
  comm::Ledger& ledger;
  measure::StepRecorder& recorder;
  const Clock& clock;
  std::shared_ptr<const models::Pace> pace;  // what paced models wait on
  comm::Gpu* gpu = nullptr;                  // what computes; null: this thread
};

class Workload {
 public:
  // Collective. Errors: ConfigError for a bad model, weights or data file.
  Workload(const RankContext& context, const plan::Cell& cell);

  // True when `cell` trains the same model the same way: only strategy, accumulation and
  // budget may differ.
  bool serves(const plan::Cell& cell) const;

  // Runs synchronized steps until a step is as all later ones: DDP's Reducer rebuilds its buckets,
  // the optimizer makes its state. Collective; once.
  void reach_steady_state(const RankContext& context);

  sync::Training training(const RankContext& context);
  const sync::Wrapper& wrapper() const { return *model_; }
  // gradient_bytes and bucket_bytes are what one synchronized micro-batch reduces.
  results::ModelInfo info() const;
  // Returns the property of a micro-batch's data that decides how much work it is; "": all
  // micro-batches are equal work.
  std::string reads_back() { return model_->module().reads_back(); }
  bool paced() { return model_->module().compute() == models::Compute::Paced; }
  models::DataLoader& data() { return *data_; }
  sync::Optimizer& optimizer() { return *optimizer_; }

 private:
  plan::Cell cell_;
  std::unique_ptr<sync::Wrapper> model_;
  std::unique_ptr<sync::Optimizer> optimizer_;
  std::unique_ptr<sync::LinearWarmup> scheduler_;
  std::unique_ptr<models::DataLoader> data_;
};

}  // namespace gradsync::run
