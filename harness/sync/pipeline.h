// Model parallelism: the model is cut into stages, one for each rank, and a micro-batch goes
// through all of them. A rank holds its stage's parameters and no others, and no gradient is ever
// reduced.
//
//   rank 0   | F |           | B |          F: forward of its stage
//   rank 1       | F | B |                  B: backward, twice as long
//
// One micro-batch after the other (strategy baseline), a rank waits while the others compute: of
// two equal stages each is idle half of the time. With all forwards before the first backward
// (strategy pipelined) the stages overlap:
//
//   rank 0   | F | F | F |           | B | B | B |
//   rank 1       | F | F | F | B | B | B |
//
// and of m micro-batches each of two ranks idles 1 / (m + 1).
// Source of the latter: Huang et al., GPipe, 2019 (bubble (K - 1) / (M + K - 1) of K stages).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "harness/comm/process_groups.h"
#include "harness/measure/step_recorder.h"
#include "harness/sync/wrapper.h"
#include "models/autograd_node.h"
#include "models/model.h"

namespace gradsync::sync {

class PipelineStage final : public Wrapper, private models::UnitHooks {
 public:
  // Rank r of W runs units r n / W to (r + 1) n / W of the model's n; the first stage also what is
  // registered before the units, the last one what is behind them, and the loss. Parameters of
  // other stages lose their memory. `recorder` records phases; may be null.
  // Errors: ConfigError for a model that cannot be cut, or has fewer units than there are ranks.
  PipelineStage(std::shared_ptr<models::Model> module,
                c10::intrusive_ptr<c10d::ProcessGroup> process_group,
                measure::StepRecorder* recorder);
  // Blocks: until the previous stage has the gradients of its activations.
  ~PipelineStage() override;

  // Returns the loss on the last rank; on the others 0, whose backward waits for the gradient of
  // what this stage handed on. Every rank must be given the same micro-batches.
  // Blocks: until the previous stage has computed. Collective: backwards in the order of forwards.
  at::Tensor forward(const models::Batch& batch) override;

  bool replicates() const override { return false; }
  const std::vector<at::Tensor>& parameters() const override { return parameters_; }
  std::vector<std::string> parameter_names() const override { return names_; }
  // Returns the collectives of micro-batches like the last one. The strategy makes no difference.
  std::vector<Collectives> declared(const std::vector<bool>& syncs) const override;
  std::vector<std::int64_t> reduction_bytes() const override { return {}; }
  models::Model& module() override { return *module_; }

 private:
  struct HandOver;  // a place in the graph: sends on the way forward, receives on the way back
  // Tensors that are being sent must stay until the peer has them.
  struct Sent {
    c10::intrusive_ptr<c10d::Work> work;
    at::Tensor tensor;
  };

  bool is_first() const { return rank_ == 0; }
  bool is_last() const { return rank_ == ranks_ - 1; }

  bool runs(std::size_t unit) const override { return unit >= first_ && unit < end_; }
  bool runs_begin() const override { return is_first(); }
  bool runs_end() const override { return is_last(); }
  at::Tensor before_forward(std::size_t unit, at::Tensor input) override;
  at::Tensor after_forward(std::size_t unit, at::Tensor output) override;

  void take_parameters(const std::vector<models::Unit>& units);
  std::int64_t bytes_between(std::size_t unit, const models::Batch& batch) const;
  Sent send(const at::Tensor& tensor, int to, int tag);
  void receive(at::Tensor& tensor, int from, int tag, measure::Phase then);

  std::shared_ptr<models::Model> module_;
  c10::intrusive_ptr<c10d::ProcessGroup> process_group_;
  measure::StepRecorder* recorder_;
  int rank_;
  int ranks_;
  std::size_t first_;  // its units: from first_ to before end_
  std::size_t end_;
  std::vector<at::Tensor> parameters_;
  std::vector<std::string> names_;
  std::vector<models::NodePtr> accumulators_;  // of gradients; hold hooks

  StageTraffic traffic_;                   // of the last micro-batch
  const models::Batch* batch_ = nullptr;   // of the forward that runs
  int tag_ = -1;                           // of its messages
  std::map<int, Sent> activations_;        // by tag
  std::deque<Sent> activation_gradients_;  // in the order sent
};

}  // namespace gradsync::sync
