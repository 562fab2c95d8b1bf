// A model as the harness sees it, and the registry of those that can be named in a plan.
//
// Models know nothing of synchronization: no process group, no strategy, no clock but the one a
// paced model waits on. To add a model: one file with a factory, one line in registry.cpp.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gradsync {
class Clock;
}

namespace gradsync::models {

// One micro-batch of one rank. Token models use all three; others use `input_ids` alone as they
// document. Shapes: input_ids and attention_mask [micro_batch_size, sequence_length] int64 (mask: 1
// = token, 0 = padding; undefined: nothing is padded), labels [micro_batch_size] int64.
struct Batch {
  at::Tensor input_ids;
  at::Tensor attention_mask;
  at::Tensor labels;
};

// How compute happens. Real: arithmetic. Paced: the layers wait on the clock.
enum class Compute { Real, Paced };

class Model : public torch::nn::Module {
 public:
  // Returns the scalar mean loss over the batch (a paced model's is a constant with a graph).
  virtual at::Tensor loss(const Batch& batch) = 0;

  virtual Compute compute() const { return Compute::Real; }

  // Seconds the optimizer of the machine re-enacted takes per step; only a paced model has it.
  virtual double paced_optimizer_s() const { return 0; }

  // Token ids go from 0 to this, exclusive; 0: the model reads none.
  virtual std::int64_t vocabulary_size() const { return 0; }

  // Names of parameters that ModelOptions::weights does not hold, so that they kept their random
  // values (a new task's classifier); empty without weights.
  const std::vector<std::string>& freshly_initialised() const { return freshly_initialised_; }
  void set_freshly_initialised(std::vector<std::string> names) {
    freshly_initialised_ = std::move(names);
  }

 private:
  std::vector<std::string> freshly_initialised_;
};

struct ModelOptions {
  at::Device device = at::kCPU;
  std::uint64_t seed = 42;       // initial parameters; the same on every rank
  int scale = 1;                 // paced models: parameters are divided by it
  std::string weights;           // a Hugging Face safetensors file; empty: random initialisation
  const Clock* clock = nullptr;  // what a paced model waits on; required for those
};

struct ModelEntry {
  std::string name;   // as in a plan: "bert_mini"
  std::string about;  // one line for `gradsync list models`
  Compute compute = Compute::Real;
  // Errors: ConfigError for options the model cannot have, or a bad weights or profile file.
  std::function<std::shared_ptr<Model>(const ModelOptions&)> make;
};

// Every model by name, in the order `list` shows them.
const std::vector<ModelEntry>& registry();

// Returns the entry of that name. A name that ends in ".json" is the path of a profile, relative to
// the working directory: the paced model it describes.
// Errors: ConfigError naming the models there are, or what is wrong with the profile.
ModelEntry find_model(const std::string& name);

}  // namespace gradsync::models
