// A strategy says when gradients are synchronized. Each is one short file that reads like the
// guide's listing; all of them run one optimizer step of `micro_batches` micro-batches.
//
// To add one: a file with a class that registers itself, its line in CMakeLists.txt, and its row in
// harness/plan/strategies.cpp, where it also declares which micro-batches synchronize: every trial
// is checked against that.
#pragma once

#include <functional>
#include <memory>
#include <string>

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

  // Whether a micro-batch repeats the one before and need not run, where only counts and memory are
  // wanted (run/repetition.h). Unset: every micro-batch runs.
  std::function<bool(int micro_batch)> repeats = nullptr;
  // Passes over the micro-batch that is about to begin, if it need not run; returns whether it did.
  bool passes_over(int micro_batch);
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
};

using MakeStrategy = std::unique_ptr<Strategy> (*)();

template <typename Kind, auto... arguments>
std::unique_ptr<Strategy> make() {
  return std::make_unique<Kind>(arguments...);
}

// Makes a strategy known under its name of harness/plan/strategies.h:
//
//   const StrategyRegistration kMine{"mine", make<Mine>};
struct StrategyRegistration {
  StrategyRegistration(const std::string& name, MakeStrategy make);
};

// Errors: ConfigError naming the strategies there are; InternalError if the strategy is not
// registered.
std::unique_ptr<Strategy> make_strategy(const std::string& name);

}  // namespace gradsync::sync
