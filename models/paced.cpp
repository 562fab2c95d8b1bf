#include "models/paced.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "models/autograd_node.h"
#include "models/module_path.h"

namespace gradsync::models {
namespace {

using torch::autograd::edge_list;
using torch::autograd::variable_list;
using Layers = std::shared_ptr<const std::vector<PacedModel::Layer>>;

// A hash of 64 bits: Steele, Lea and Flood's SplitMix (2014), its last step.
std::uint64_t mixed(std::uint64_t number) {
  number += 0x9E3779B97F4A7C15ULL;
  number = (number ^ (number >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  number = (number ^ (number >> 27U)) * 0x94D049BB133111EBULL;
  return number ^ (number >> 31U);
}

// Gradients repeat a row of numbers, so that they are written at the speed of memory. Each has its
// own row, a part of one table.
constexpr std::int64_t kRow = 1024;
constexpr std::int64_t kRows = 4096;  // of the table, one from each place on

// Returns the value at a place of the table: 1 to 255 times a power of two, so that sums and means
// of a few are exact, also in 16 bits.
float table_value(std::uint64_t place) {
  constexpr double kUnit = 0x1p-10;
  return static_cast<float>(kUnit * static_cast<double>(1 + mixed(place) % 255));
}

// Returns the table; its memory is the program's, and counts as no tensor's.
at::Tensor table_on(at::Device device) {
  static std::vector<float> values = [] {
    std::vector<float> made;
    for (std::int64_t i = 0; i < kRow + kRows; ++i) {
      made.push_back(table_value(static_cast<std::uint64_t>(i)));
    }
    return made;
  }();
  return at::from_blob(values.data(), {kRow + kRows}, at::kFloat).to(device);
}

// Where the row of a parameter begins in the table, for a micro-batch.
std::int64_t row_of(std::size_t parameter, std::uint64_t batch) {
  return static_cast<std::int64_t>(mixed(mixed(batch) + parameter) % std::uint64_t{kRows});
}

// What a micro-batch's gradients are, of each parameter.
class GradientValues {
 public:
  GradientValues(at::Tensor table, std::uint64_t batch) : table_(std::move(table)), batch_(batch) {}

  // Returns those of `parameter`, the `index`-th, times the signal.
  at::Tensor times(const at::Tensor& signal, const at::Tensor& parameter, std::size_t index) const {
    const at::NoGradGuard no_grad;
    const at::Tensor row = table_.narrow(0, row_of(index, batch_), kRow);
    const at::Tensor gradient = at::empty(parameter.sizes(), table_.options());
    const at::Tensor flat = gradient.view({-1});
    const std::int64_t rows = flat.numel() / kRow;
    const std::int64_t rest = flat.numel() % kRow;
    if (rows > 0) {
      at::Tensor whole = flat.narrow(0, 0, rows * kRow).view({rows, kRow});
      at::mul_out(whole, row.expand({rows, kRow}), signal);
    }
    if (rest > 0) {
      at::Tensor end = flat.narrow(0, rows * kRow, rest);
      at::mul_out(end, row.narrow(0, 0, rest), signal);
    }
    return gradient;
  }

 private:
  at::Tensor table_;
  std::uint64_t batch_;
};

// The tensors of a replay.
class HeldTensors {
 public:
  void run(const MemoryScript& script, const at::TensorOptions& options) {
    for (const MemoryEvent& event : script.events()) {
      if (event.kind == MemoryEvent::Kind::Hold) {
        tensors_.push_back(at::empty({event.bytes}, options.dtype(at::kByte)));
        continue;
      }
      GRADSYNC_CHECK(static_cast<std::int64_t>(tensors_.back().nbytes()), ==, event.bytes);
      tensors_.pop_back();
    }
  }
  void clear() { tensors_.clear(); }

 private:
  std::vector<at::Tensor> tensors_;
};

// One forward and its backward. A scalar, the signal, ties all layers into a graph; what comes back
// along it is the gradient of the loss.
// Where hooks leave layers out, a stretch begins with the first layer that runs here, when what it
// works on has come.
struct Pass {
  Pass(Layers the_layers, std::shared_ptr<const Pace> the_pace, GradientValues the_values,
       Recomputation the_recomputation, bool it_replays)
      : layers(std::move(the_layers)),
        pace(std::move(the_pace)),
        values(std::move(the_values)),
        recomputation(std::move(the_recomputation)),
        forward(pace->begin()),
        replays(it_replays) {}

  // Notes that layer `index` runs here.
  void enter_forward(std::size_t index) {
    if (first_layer) return;
    first_layer = index;
    if (index == 0) return;  // began with the pass
    replays = false;         // what layers hold is known of a whole model
    forward = pace->begin();
    forward_from_ns = (*layers)[index - 1].forward_until_ns;
  }
  void await_forward(std::size_t index) const {
    forward->await((*layers)[index].forward_until_ns - forward_from_ns);
  }

  // Begins backward with layer `index`, the last one here, whose gradients it makes.
  void start_backward(std::size_t index, const at::Tensor& signal,
                      std::unique_ptr<Stretch> stretch) {
    backward = std::move(stretch);
    backward_from_ns = backward_until_ns(index + 1);
    recomputed_ns = 0;
    if (!replays) prepare(index, signal);
  }
  void await_backward(std::size_t index) const {
    backward->await(backward_until_ns(index) - backward_from_ns + recomputed_ns);
  }

  // Layer `index`, if it is checkpointed, takes the time of its forward once more.
  void run_again(std::size_t index) {
    if (!recomputation.units.has(index)) return;
    if (recomputation.on_rerun) recomputation.on_rerun(index, true);
    recomputed_ns += forward_ns(index);
    await_backward(index + 1);
    if (recomputation.on_rerun) recomputation.on_rerun(index, false);
  }

  // Makes and frees what layer `index` does.
  void replay_forward(std::size_t index, const at::TensorOptions& options) {
    if (replays) held.run((*layers)[index].replay.forward, options);
  }
  void replay_backward(std::size_t index, const at::Tensor& signal) {
    held.run((*layers)[index].replay.backward, signal.options());
    prepare(index, signal);
    due = std::exchange(prepared, {});
  }
  void stop_replay() {
    replays = false;
    held.clear();
  }

  // Makes the gradients of layer `index`, so that they are there when its wait is over.
  void prepare(std::size_t index, const at::Tensor& signal) {
    const PacedModel::Layer& layer = (*layers)[index];
    prepared.clear();
    for (std::size_t i = 0; i < layer.parameters.size(); ++i) {
      prepared.push_back(values.times(signal, layer.parameters[i], layer.first_parameter + i));
    }
  }

  std::int64_t forward_ns(std::size_t index) const {
    return (*layers)[index].forward_until_ns -
           (index == 0 ? 0 : (*layers)[index - 1].forward_until_ns);
  }
  // Behind the last layer: when backward begins.
  std::int64_t backward_until_ns(std::size_t index) const {
    return index < layers->size() ? (*layers)[index].backward_until_ns : 0;
  }

  const Layers layers;
  const std::shared_ptr<const Pace> pace;
  const GradientValues values;
  const Recomputation recomputation;
  std::unique_ptr<Stretch> forward;
  std::unique_ptr<Stretch> backward;
  std::optional<std::size_t> first_layer;  // of those that run here
  std::int64_t forward_from_ns = 0;        // what the layers before it take
  std::int64_t backward_from_ns = 0;       // what the layers after the last one here take
  std::int64_t recomputed_ns = 0;          // what ran again in backward took so far
  variable_list due;                       // gradients of the layer whose backward is over
  variable_list prepared;                  // of the one after it
  bool replays;
  HeldTensors held;
};

// A place in the graph where the pass does something in backward. Nodes of our own, not
// torch::autograd::Function: there are 200 of them, whose bookkeeping would cost 2 ms more
// processor time per micro-batch, and that of the last layer's would show.
class Step : public torch::autograd::Node {
 public:
  Step(std::shared_ptr<Pass> pass, std::size_t index, edge_list&& next)
      : Node(std::move(next)), pass_(std::move(pass)), index_(index) {}

 protected:
  std::shared_ptr<Pass> pass_;
  std::size_t index_;  // of a layer, or of a parameter in its layer
};

// Hands a parameter its gradient. One node each, because autograd runs nodes in the reverse of
// their order, but the gradients of one node in none.
class GiveGradient final : public Step {
  using Step::Step;
  variable_list apply(variable_list&& gradients) override {
    // Moved out: autograd keeps a gradient that no other code holds, and copies any other.
    return {std::move(gradients[0]), std::move(pass_->due[index_])};
  }
};

class AwaitLayer final : public Step {
  using Step::Step;
  variable_list apply(variable_list&& gradients) override {
    // Where the loss is elsewhere, backward begins when its gradient has come from there.
    if (pass_->backward == nullptr) {
      pass_->stop_replay();
      pass_->start_backward(index_, gradients[0], pass_->pace->begin());
    }
    pass_->run_again(index_);
    if (pass_->replays) {
      pass_->replay_backward(index_, gradients[0]);
    } else {
      advance(gradients[0]);
    }
    pass_->await_backward(index_);
    return std::move(gradients);
  }

  // The next layer's gradients, too: where it takes no time, there is no wait to hide them in.
  void advance(const at::Tensor& signal) {
    pass_->due = std::exchange(pass_->prepared, {});
    if (index_ > *pass_->first_layer) pass_->prepare(index_ - 1, signal);
  }
};

// The loss: its backward is the first to run.
class StartBackward final : public Step {
  using Step::Step;
  variable_list apply(variable_list&& gradients) override {
    const std::int64_t forward_ns = pass_->layers->back().forward_until_ns - pass_->forward_from_ns;
    pass_->start_backward(index_, gradients[0],
                          pass_->pace->begin_after(*pass_->forward, forward_ns));
    return std::move(gradients);
  }
};

// A piece of the graph of a pass, grown node by node from where `signal` is in it, if anywhere.
class Graph {
 public:
  explicit Graph(const at::Tensor& signal)
      : signal_(at::zeros({}, signal.options())),
        last_(torch::autograd::impl::gradient_edge(signal)) {}

  template <typename Node>
  void add(const std::shared_ptr<Pass>& pass, std::size_t index, const at::Tensor& parameter = {}) {
    edge_list next;
    next.reserve(2);
    next.push_back(last_);
    if (parameter.defined()) next.emplace_back(torch::autograd::impl::gradient_edge(parameter));
    const NodePtr node = make_node<Node>(pass, index, std::move(next));
    last_ = {node, node->add_input_metadata(signal_)};
  }

  // Returns the signal as the output of the last node.
  at::Tensor finish() {
    torch::autograd::impl::set_gradient_edge(signal_, last_);
    return signal_;
  }

 private:
  at::Tensor signal_;
  torch::autograd::Edge last_;
};

// One layer: its place in the graph, then its wait, which hides the former. Backward, in reverse,
// waits first.
at::Tensor run_layer(const std::shared_ptr<Pass>& pass, std::size_t index, at::Tensor signal) {
  pass->enter_forward(index);
  if (at::GradMode::is_enabled()) {
    const std::vector<at::Tensor>& parameters = (*pass->layers)[index].parameters;
    Graph graph(signal);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      graph.add<GiveGradient>(pass, i, parameters[i]);
    }
    graph.add<AwaitLayer>(pass, index);
    pass->replay_forward(index, signal.options());
    signal = graph.finish();
  }
  pass->await_forward(index);
  return signal;
}

// Returns the loss: the signal, with the start of backward.
at::Tensor end_forward(const std::shared_ptr<Pass>& pass, const at::Tensor& signal) {
  if (!at::GradMode::is_enabled()) return signal;
  Graph graph(signal);
  graph.add<StartBackward>(pass, pass->layers->size() - 1);
  return graph.finish();
}

at::Tensor zeros_for(const ProfileTensor& tensor, int scale, at::ScalarType type) {
  if (scale == 1) return at::zeros(tensor.shape, type);
  const std::int64_t elements = (2 * tensor.elements() + scale) / (2 * std::int64_t{scale});
  return at::zeros({std::max<std::int64_t>(1, elements)}, type);
}

}  // namespace

double PacedModel::gradient_value(std::size_t parameter, std::int64_t element,
                                  std::uint64_t batch) {
  return table_value(static_cast<std::uint64_t>(row_of(parameter, batch) + element % kRow));
}

PacedModel::PacedModel(const Profile& profile, int scale, std::shared_ptr<const Pace> pace,
                       at::Device device)
    : layers_(std::make_shared<std::vector<Layer>>(profile.layers.size())),
      optimizer_s_(profile.optimizer_s),
      options_(at::TensorOptions().dtype(at::kFloat).device(device)),
      gradient_table_(table_on(device)),
      pace_(std::move(pace)) {
  register_tensors(profile, scale);
  refuse_other_order(profile);
  set_deadlines(profile);
  set_replay(profile, scale);
  to(device);
}

void PacedModel::register_tensors(const Profile& profile, int scale) {
  std::size_t index = 0;
  for (std::size_t i = 0; i < profile.layers.size(); ++i) {
    Layer& layer = (*layers_)[i];
    layer.first_parameter = index;
    Unit& unit = units_.emplace_back(Unit{profile.layers[i].name, {}});
    for (const ProfileTensor& tensor : profile.layers[i].parameters) {
      const auto [owner, name] = module_path(*this, tensor.name);
      layer.parameters.push_back(
          owner.register_parameter(name, zeros_for(tensor, scale, at::kFloat)));
      unit.parameters.push_back(tensor.name);
      ++index;
    }
  }
  for (const ProfileTensor& tensor : profile.buffers) {
    const auto [owner, name] = module_path(*this, tensor.name);
    owner.register_buffer(name, zeros_for(tensor, scale, at::kLong));
  }
}

void PacedModel::set_deadlines(const Profile& profile) {
  double forward_s = 0;
  double backward_s = 0;
  for (std::size_t i = 0; i < layers_->size(); ++i) {
    const std::size_t from_end = layers_->size() - 1 - i;
    forward_s += profile.layers[i].forward_s;
    backward_s += profile.layers[from_end].backward_s;
    (*layers_)[i].forward_until_ns = nanoseconds(forward_s);
    (*layers_)[from_end].backward_until_ns = nanoseconds(backward_s);
  }
}

void PacedModel::set_replay(const Profile& profile, int scale) {
  std::vector<LayerReplay> replays = replay_of(profile, scale);
  replays_ = !replays.empty();
  for (std::size_t i = 0; i < replays.size(); ++i) (*layers_)[i].replay = std::move(replays[i]);
}

// DDP's buckets follow the order of parameters(), which must be the profile's.
void PacedModel::refuse_other_order(const Profile& profile) const {
  const auto actual = named_parameters();
  std::size_t index = 0;
  for (const ProfileLayer& layer : profile.layers) {
    for (const ProfileTensor& tensor : layer.parameters) {
      const std::string& name = actual[index++].key();
      if (name == tensor.name) continue;
      throw ConfigError("profile " + profile.name, "layers", tensor.name + " before " + name,
                        "a module's parameters together, its own before those of its parts");
    }
  }
}

at::Tensor PacedModel::loss(const Batch& batch) {
  const auto pass = std::make_shared<Pass>(
      layers_, pace_, GradientValues(gradient_table_, batch.number), recomputation(), replays_);
  at::Tensor signal = run_begin([&] { return at::zeros({}, options_); });
  for (std::size_t i = 0; i < layers_->size(); ++i) {
    signal = run_kept_unit(i, signal,
                           [&](const at::Tensor& input) { return run_layer(pass, i, input); });
  }
  return run_end(signal, [&](const at::Tensor& last) { return end_forward(pass, last); });
}

}  // namespace gradsync::models
