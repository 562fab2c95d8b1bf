// What stays resident in a rank for the whole launch: one model with its wrapper, optimizer and
// data, shared by every strategy that trains it, so that strategies differ in when they synchronize
// and in nothing else (same memory, same buckets, same placement).
#pragma once

#include <memory>

#include "harness/comm/ledger.h"
#include "harness/measure/step_recorder.h"
#include "harness/plan/plan.h"
#include "harness/run/expectation.h"
#include "harness/run/launch_spec.h"
#include "harness/sync/strategies/strategy.h"

namespace gradsync::run {

// What a rank has for all of its workloads.
struct RankContext {
  const LaunchSpec& spec;
  int rank;
  int node;
  int world_size;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  comm::Ledger& ledger;
  measure::StepRecorder& recorder;
  const Clock& clock;
};

class Workload {
 public:
  // Collective. Errors: ConfigError for a bad model, weights or data file.
  Workload(const RankContext& context, const plan::Cell& cell);

  // True when `cell` trains the same model the same way: only strategy and accumulation may differ.
  bool serves(const plan::Cell& cell) const;

  // Runs synchronized steps until the Reducer has rebuilt its buckets. Collective; once.
  void rebuild_buckets(const RankContext& context);

  sync::Training training(const RankContext& context);
  Declared declared() const;
  // {"parameters", "gradient_bytes", "tensors", "bucket_bytes", "scale", "paced"}, and
  // "freshly_initialised", names of parameters, where --weights lacked some
  nlohmann::json info() const;
  bool paced() { return model_->module().compute() == models::Compute::Paced; }
  models::DataLoader& data() { return *data_; }
  sync::Optimizer& optimizer() { return *optimizer_; }

 private:
  plan::Cell cell_;
  std::unique_ptr<sync::DistributedDataParallel> model_;
  std::unique_ptr<sync::Optimizer> optimizer_;
  std::unique_ptr<sync::LinearWarmup> scheduler_;
  std::unique_ptr<models::DataLoader> data_;
};

}  // namespace gradsync::run
