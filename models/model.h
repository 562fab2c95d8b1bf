// A model as the harness sees it, and the registry of those that can be named in a plan.
//
// Models know nothing of synchronization: no process group, no strategy, no clock but what a paced
// model waits on. To add a model: a file of its own, which registers it (Registration), and its
// line in CMakeLists.txt; from anywhere else it is linked into the rank program by GRADSYNC_MODELS.
// A model with a footprint has a row in suite.cpp.
#pragma once

#include <torch/nn/module.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/recompute.h"
#include "models/suite.h"
#include "models/unit_levers.h"

namespace gradsync::models {

class Pace;

// One micro-batch of one rank. Token models use all three; others use `input_ids` alone as they
// document. Shapes: input_ids and attention_mask [micro_batch_size, sequence_length] int64 (mask: 1
// = token, 0 = padding; undefined: nothing is padded), labels [micro_batch_size] int64.
struct Batch {
  at::Tensor input_ids;
  at::Tensor attention_mask;
  at::Tensor labels;
  std::uint64_t number = 0;  // among those of all ranks
};

// A part of a model whose parameters are needed together and then not until its backward: a layer.
struct Unit {
  std::string name;                     // "bert.encoder.layer.0"
  std::vector<std::string> parameters;  // names and order as in named_parameters(); may be empty
};

// Calls around each unit of a model, so that its parameters can come and go. Both calls get the
// unit's index in units() and its main tensor (hidden states), and return the tensor to go on with:
// the same one, or one with another place in autograd's graph. The default does nothing.
//
// Hooks can also leave a part of the model out, which another process runs: a unit that is not run
// has no calls made for it and passes on what it got. Without its begin the model starts from an
// undefined tensor; without its end, loss() returns what the last unit handed on.
class UnitHooks {
 public:
  virtual ~UnitHooks() = default;
  virtual at::Tensor before_forward(std::size_t unit, at::Tensor input) { return input; }
  virtual at::Tensor after_forward(std::size_t unit, at::Tensor output) { return output; }
  virtual bool runs(std::size_t unit) const { return true; }
  virtual bool runs_begin() const { return true; }  // what comes before the first unit
  virtual bool runs_end() const { return true; }    // what comes after the last, with the loss
};

// Units that keep no activations and run again in backward (models/recompute.h).
struct Recomputation {
  CheckpointedUnits units;
  // Called when a unit begins to run again (true) and when that has ended (false); may be empty.
  std::function<void(std::size_t unit, bool begins)> on_rerun;
};

class Model : public torch::nn::Module {
 public:
  // Returns the scalar mean loss over the batch (a paced model's is a constant with a graph).
  virtual at::Tensor loss(const Batch& batch) = 0;

  virtual Compute compute() const { return Compute::Real; }

  // Returns what the host must read back from a device in the forward of every micro-batch before
  // it can queue more, so that it cannot run ahead; "": nothing. On the CPU this makes no
  // difference in time.
  virtual std::string reads_back() const { return ""; }

  // Returns the seconds of an optimizer step on the machine that a paced model re-enacts; other
  // models have none.
  virtual double paced_optimizer_s() const { return 0; }

  // Returns the units in the order in which forward runs them, each once. Parameters in none of
  // them belong to the model as a whole. Empty: the model cannot be divided.
  virtual std::vector<Unit> units() const { return {}; }

  // Returns the shape of the tensor that unit `unit` hands to the next one for `batch`; nothing: it
  // is not known, and the model cannot be divided between two units. Elements are float32.
  virtual std::optional<std::vector<std::int64_t>> unit_output_shape(std::size_t unit,
                                                                     const Batch& batch) const {
    return std::nullopt;
  }

  // From now on, forward calls `hooks` around every unit; null: none. They must outlive their use.
  void set_unit_hooks(UnitHooks* hooks) { unit_hooks_ = hooks; }

  // From now on, forward checkpoints these units. Gradients are the same bits.
  void set_recomputation(Recomputation recomputation) { recomputation_ = std::move(recomputation); }

  // Returns the end of the range of token ids, exclusive; 0: the model reads none.
  virtual std::int64_t vocabulary_size() const { return 0; }

  // Returns whether inputs are the pixels of pictures (models/pictures.h) instead of tokens.
  virtual bool reads_pictures() const { return false; }

  // Names of parameters that ModelOptions::weights does not hold, so that they kept their random
  // values (a new task's classifier); empty without weights.
  const std::vector<std::string>& freshly_initialised() const { return freshly_initialised_; }
  void set_freshly_initialised(std::vector<std::string> names) {
    freshly_initialised_ = std::move(names);
  }

 protected:
  // Returns begin(), the input of the first unit, unless the hooks leave it out.
  template <typename Begin>
  at::Tensor run_begin(const Begin& begin) {
    return unit_hooks_ == nullptr || unit_hooks_->runs_begin() ? begin() : at::Tensor();
  }

  // Returns end(output), the loss, where `output` is the last unit's; `output` where the hooks
  // leave the end out.
  template <typename End>
  at::Tensor run_end(const at::Tensor& output, const End& end) {
    return unit_hooks_ == nullptr || unit_hooks_->runs_end() ? end(output) : output;
  }

  // Returns forward(input), the output of unit `index` of units(), with the hooks called around it.
  // The function of a checkpointed unit is copied and called again in backward, so it must own what
  // it uses.
  template <typename Forward>
  at::Tensor run_unit(std::size_t index, at::Tensor input, const Forward& forward) {
    return run_kept_unit(index, std::move(input), [&](const at::Tensor& given) {
      return run_or_checkpoint(index, given, forward);
    });
  }

  // The same for a unit that is never checkpointed, or sees to that itself by recomputation().
  template <typename Forward>
  at::Tensor run_kept_unit(std::size_t index, at::Tensor input, const Forward& forward) {
    if (unit_hooks_ == nullptr) return forward(input);
    if (!unit_hooks_->runs(index)) return input;
    input = unit_hooks_->before_forward(index, std::move(input));
    return unit_hooks_->after_forward(index, forward(input));
  }
  const Recomputation& recomputation() const { return recomputation_; }

 private:
  template <typename Forward>
  at::Tensor run_or_checkpoint(std::size_t index, const at::Tensor& input, const Forward& forward) {
    if (!recomputation_.units.has(index)) return forward(input);
    std::function<void(bool)> on_rerun;
    if (recomputation_.on_rerun) {
      on_rerun = [told = recomputation_.on_rerun, index](bool begins) { told(index, begins); };
    }
    return run_checkpointed(input, {forward, std::move(on_rerun), recomputation_.units.kept});
  }

  Recomputation recomputation_;
  std::vector<std::string> freshly_initialised_;
  UnitHooks* unit_hooks_ = nullptr;
};

struct ModelOptions {
  at::Device device = at::kCPU;
  std::uint64_t seed = 42;  // initial parameters; the same on every rank
  int scale = 1;            // paced models: parameters are divided by it
  std::string weights;      // path of a Checkpoint; empty: random initialisation
  // What a paced model waits on, the pace of `device`; required for those.
  std::shared_ptr<const Pace> pace;

  // BERT only: how it attends.
  AttentionImplementation attention = AttentionImplementation::Eager;

  // BERT only: updates that are trained in place of the weights (models/lora.h).
  LoraUpdates lora = {};

  // Type of parameters and gradients: float32 or bfloat16; a Mixtral, a BERT and the perceptron
  // have both.
  at::ScalarType dtype = at::kFloat;

  // Mixtral only; other models refuse any other value. Without initial values and with balanced
  // routing, memory and collectives stay the same, but values mean nothing.
  bool uninitialised = false;     // parameters hold whatever their memory held
  bool balanced_routing = false;  // all experts get equally many tokens, whatever the router says
  // Parameters are uninitialised and have shapes but no memory; the caller gives them some.
  bool without_memory = false;
};

struct ModelEntry : ModelDescription {
  // Errors: ConfigError for options the model cannot have, or a bad weights or profile file.
  std::function<std::shared_ptr<Model>(const ModelOptions&)> make;
};

// Every model by name, in the order `list` shows them: those of the suite, then those registered.
// Errors: ConfigError for a registered name that is taken, empty, or ends in ".json".
const std::vector<ModelEntry>& registry();

// Adds a model to the registry, from a file of its own:
//
//   static const Registration registration{
//       {{.name = "mine", .about = "one line about it", .has_bfloat16 = true}, make}};
//
// `make` is only called with options that the model says it can have.
struct Registration {
  explicit Registration(ModelEntry entry);
};

// Returns `entries` and after them `registered`.   Errors: as registry().
std::vector<ModelEntry> with_registered(std::vector<ModelEntry> entries,
                                        const std::vector<ModelEntry>& registered);

// Loads ModelOptions::weights, where there are any, into `model` and notes what they lack.
// Errors: as load_safetensors.
void load_weights(const ModelOptions& options, Model& model);

// Returns the entry of that name. A name that ends in ".json" is the path of a profile, relative to
// the working directory: the paced model it describes.
// Errors: ConfigError naming the models there are, or what is wrong with the profile.
ModelEntry find_model(const std::string& name);

}  // namespace gradsync::models
