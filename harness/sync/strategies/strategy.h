// A strategy says when gradients are synchronized. Each is one short file that reads like the
// guide's listing; all of them run one optimizer step of `micro_batches` micro-batches.
//
// To add one: a file with a class and a factory, a line in registry.cpp. Every strategy declares
// what it should communicate, and every trial is checked against that.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/comm/ledger.h"
#include "harness/sync/accelerator.h"
#include "harness/sync/adamw.h"
#include "harness/sync/wrapper.h"
#include "models/data.h"

namespace gradsync::sync {

// What a strategy trains with; it owns none of it. The wrapper is shared by all strategies of a
// launch, so that they differ in nothing but what their step() does.
struct Training {
  Wrapper& model;
  Optimizer& optimizer;
  LinearWarmup& scheduler;
  models::DataLoader& data;
  measure::StepRecorder& recorder;
  comm::Ledger& ledger;
  int world_size;
  int step = 0;  // of the block, for the ledger
  // Micro-batches of a full window: what losses are divided by, in shorter windows too, as
  // Accelerate and the guide's scripts do. 0: every window is a full one.
  int accumulation_steps = 0;
  int full_window(int micro_batches) const {
    return accumulation_steps > 0 ? accumulation_steps : micro_batches;
  }

  // The next micro-batch; also tells recorder and ledger that it begins.
  const models::Batch& next_batch(int micro_batch);
  // Goes on with a micro-batch whose forward has run before: tells recorder and ledger.
  void return_to(int micro_batch);
  // Backward of the loss / full_window(micro_batches).
  void backward(at::Tensor loss, int micro_batches);
  // optimizer.step(), scheduler.step() and optimizer.zero_grad(), as one timed phase.
  void update();
};

class Strategy {
 public:
  virtual ~Strategy() = default;

  // Runs one optimizer step. Collective: all ranks, same micro_batches.
  virtual void step(Training& training, int micro_batches) = 0;

  // Declares, for each micro-batch of a step, whether its gradients are reduced, under a wrapper
  // that reads no_sync's flag in `flag`.
  virtual std::vector<bool> declared_syncs(int micro_batches, FlagRead flag) const = 0;

  // Whether the guide's script for this strategy ends its epoch on a short window (accumulate),
  // or begins it with a step of one micro-batch (the others). Used by the as_published window rule.
  virtual bool short_window_last() const { return false; }
};

struct StrategyEntry {
  std::string name;                   // as in a plan
  std::string label;                  // as in the guide's table
  std::vector<std::string> wrappers;  // those it runs under
  std::string about;
  std::function<std::unique_ptr<Strategy>()> make;
};

// Every strategy, in the order tables show them.
const std::vector<StrategyEntry>& strategies();

// Errors: ConfigError naming the strategies there are.
const StrategyEntry& find_strategy(const std::string& name);

}  // namespace gradsync::sync
