// A model with another machine's compute profile: its layers wait, on the host's clock or in a
// device's queue (models/pace.h), while everything around them, the Reducer, the hooks, the bytes
// on the link, is real.
//
// Deadlines are absolute (start of forward or backward plus the layers so far), so that the work of
// hooks and copies hides in the waits, as it does beside a GPU, and errors do not add up.
//
//   forward:   |-- layer 0 --|-- layer 1 --|                    the loss
//   backward:                              |-- layer 1 --|g|-- layer 0 --|g|
//
// g: the layer's gradients appear, last registered first, when its backward is over. They are made
// during the wait before.
//
// A checkpointed layer takes the time of its forward once more, before that of its backward.
//
// Where the profile recorded what the model held (models/replay.h), a layer makes and frees tensors
// of those sizes when its forward and its backward begin, and its gradients in its own backward.
// Nothing is written to them: on the CPU they take addresses and no memory.
#pragma once

#include <memory>
#include <vector>

#include "models/model.h"
#include "models/pace.h"
#include "models/profile.h"
#include "models/replay.h"

namespace gradsync::models {

class PacedModel : public Model {
 public:
  // `scale` divides the elements of every parameter and buffer (rounded half up, at least one);
  // shapes become flat. On a link slowed by the same factor, transfers keep their times.
  // `pace` is that of `device`. Names and their order are the profile's.
  // Errors: ConfigError where the profile's names cannot be nested in modules in its order.
  PacedModel(const Profile& profile, int scale, std::shared_ptr<const Pace> pace,
             at::Device device);

  // Returns 0 after the profile's forward time; its backward takes the profile's backward time and
  // gives element k of parameter i the gradient gradient_value(i, k, batch.number), times the
  // gradient of the loss itself.
  // Blocks: the host's pace the calling thread, which runs forward and backward; a device's only
  // its current stream. Each loss has its own start times, so several may wait for their backward.
  // On the host, up to half a millisecond between a forward and its backward hides.
  at::Tensor loss(const Batch& batch) override;

  // One per layer of the profile. Their main tensor is a scalar: nothing on the way forward, on the
  // way back the gradient of the loss.
  std::vector<Unit> units() const override { return units_; }
  // A scalar: what a layer of the machine re-enacted hands on is not in a profile.
  std::optional<std::vector<std::int64_t>> unit_output_shape(std::size_t,
                                                             const Batch&) const override {
    return std::vector<std::int64_t>{};
  }

  Compute compute() const override { return Compute::Paced; }
  double paced_optimizer_s() const override { return optimizer_s_; }

  // Never 0, and another for other parameters, elements and micro-batches, of one rank or several:
  // a reduction that is lost, doubled or misplaced shows, and so does what each micro-batch weighs
  // in it (run/gradient_account.h).
  static double gradient_value(std::size_t parameter, std::int64_t element = 0,
                               std::uint64_t batch = 0);

  // One layer: what it must wait for and what it must give.
  struct Layer {
    std::vector<at::Tensor> parameters;
    std::size_t first_parameter = 0;     // index of parameters[0] in the model
    std::int64_t forward_until_ns = 0;   // since forward began
    std::int64_t backward_until_ns = 0;  // since backward began
    LayerReplay replay;
  };

 private:
  void register_tensors(const Profile& profile, int scale);
  void set_deadlines(const Profile& profile);
  void set_replay(const Profile& profile, int scale);
  void refuse_other_order(const Profile& profile) const;

  std::shared_ptr<std::vector<Layer>> layers_;
  std::vector<Unit> units_;
  bool replays_ = false;
  double optimizer_s_;
  at::TensorOptions options_;
  at::Tensor gradient_table_;  // on the model's device
  std::shared_ptr<const Pace> pace_;
};

}  // namespace gradsync::models
