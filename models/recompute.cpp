#include "models/recompute.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "harness/base/errors.h"
#include "models/autocast.h"
#include "models/selective.h"

namespace gradsync::models {
namespace {

using Hooks = std::unique_ptr<torch::autograd::SavedVariableHooks>;

// Makes the hooks for tensors that this thread's operations save; null: they save them without
// hooks.
thread_local const std::function<Hooks()>* hooks_of_thread = nullptr;

class HooksScope {
 public:
  explicit HooksScope(const std::function<Hooks()>& make)
      : outer_(std::exchange(hooks_of_thread, &make)) {}
  ~HooksScope() { hooks_of_thread = outer_; }
  HooksScope(const HooksScope&) = delete;
  HooksScope& operator=(const HooksScope&) = delete;

 private:
  const std::function<Hooks()>* outer_;
};

// Autograd asks its engine for the hooks of every tensor that is saved. Python's engine has those
// of torch.autograd.graph.saved_tensors_hooks, C++'s none: this is C++'s, with hooks.
class EngineWithHooks final : public torch::autograd::Engine {
 public:
  static Engine& instance() {
    static EngineWithHooks engine;
    return engine;
  }
  ~EngineWithHooks() override { stop(); }
  Hooks get_default_saved_variable_hooks() override {
    return hooks_of_thread == nullptr ? nullptr : (*hooks_of_thread)();
  }
};

void install_engine() {
  static std::once_flag once;
  std::call_once(once,
                 [] { torch::autograd::set_default_engine_stub(&EngineWithHooks::instance); });
}

// Thrown through forward: all that backward will need is there.
struct AllMadeAgain {};

at::Tensor state_of(at::Generator generator) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

// Random numbers are those after `state`; afterwards, those that would have come.
class RandomStateScope {
 public:
  RandomStateScope(at::Generator generator, const at::Tensor& state)
      : generator_(std::move(generator)), outer_(state_of(generator_)) {
    set(state);
  }
  ~RandomStateScope() { set(outer_); }
  RandomStateScope(const RandomStateScope&) = delete;
  RandomStateScope& operator=(const RandomStateScope&) = delete;

 private:
  void set(const at::Tensor& state) {
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    generator_.set_state(state);
  }
  at::Generator generator_;
  at::Tensor outer_;
};

// One call of run_checkpointed, as long as its graph.
class CheckpointedCall : public std::enable_shared_from_this<CheckpointedCall> {
 public:
  CheckpointedCall(const at::Tensor& input, CheckpointedStretch stretch)
      : stretch_(std::move(stretch)),
        input_(input.detach().set_requires_grad(input.requires_grad())),
        generator_(at::globalContext().defaultGenerator(input.device())),
        random_state_(state_of(generator_)),
        autocast_to_(autocast_dtype(input.device().type())),
        kept_(stretch_.kept) {}

  at::Tensor run(const at::Tensor& input);

  // Called for each tensor that the first run saves, in their order; returns its place.
  std::size_t forget(const at::Tensor& saved) {
    forgotten_.push_back({saved.sizes().vec(), saved.scalar_type()});
    return forgotten_.size() - 1;
  }
  // The same for the second run, which ends with the last.
  void keep(const at::Tensor& saved) {
    check_is_the_same(saved);
    made_again_.push_back(saved.detach());
    if (made_again_.size() == forgotten_.size()) throw AllMadeAgain();
  }
  // Hands out what was saved at `place`, once.
  at::Tensor take(std::size_t place);
  // Drops what was saved at `place`, which is no longer needed.
  void let_go(std::size_t place) {
    if (place < made_again_.size()) made_again_[place].reset();
  }

 private:
  struct Described {
    std::vector<std::int64_t> sizes;
    at::ScalarType dtype;
  };

  void run_again();
  void check_is_the_same(const at::Tensor& saved) const;

  CheckpointedStretch stretch_;
  at::Tensor input_;
  at::Generator generator_;
  at::Tensor random_state_;
  std::optional<at::ScalarType> autocast_to_;  // as in forward
  KeptResults kept_;
  std::vector<Described> forgotten_;
  std::vector<at::Tensor> made_again_;
  bool ran_again_ = false;
};

// Stands in the graph for a tensor of the first run.
class Forgotten final : public torch::autograd::SavedVariableHooks {
 public:
  explicit Forgotten(std::shared_ptr<CheckpointedCall> stretch) : stretch_(std::move(stretch)) {}
  ~Forgotten() override { stretch_->let_go(place_); }
  void call_pack_hook(const at::Tensor& saved) override { place_ = stretch_->forget(saved); }
  at::Tensor call_unpack_hook() override { return stretch_->take(place_); }

 private:
  std::shared_ptr<CheckpointedCall> stretch_;
  std::size_t place_ = 0;
};

// Hooks of the second run, whose own graph is not used.
class MadeAgain final : public torch::autograd::SavedVariableHooks {
 public:
  explicit MadeAgain(CheckpointedCall& stretch) : stretch_(stretch) {}
  void call_pack_hook(const at::Tensor& saved) override { stretch_.keep(saved); }
  at::Tensor call_unpack_hook() override {
    throw InternalError("a backward through the graph of a stretch's second run");
  }

 private:
  CheckpointedCall& stretch_;
};

at::Tensor CheckpointedCall::run(const at::Tensor& input) {
  const std::function<Hooks()> make = [this] {
    return std::make_unique<Forgotten>(shared_from_this());
  };
  const HooksScope scope(make);
  const SelectiveScope selective(kept_, SelectiveScope::Run::First);
  return stretch_.forward(input);
}

void CheckpointedCall::run_again() {
  const RandomStateScope random(generator_, random_state_);
  const at::AutoGradMode with_graph(true);
  const AutocastScope autocast(input_.device().type(), autocast_to_);
  const std::function<Hooks()> make = [this] { return std::make_unique<MadeAgain>(*this); };
  made_again_.reserve(forgotten_.size());
  try {
    const HooksScope scope(make);
    const SelectiveScope selective(kept_, SelectiveScope::Run::Again);
    stretch_.forward(input_);
  } catch (const AllMadeAgain&) {
  }
  kept_.clear();
}

at::Tensor CheckpointedCall::take(std::size_t place) {
  if (!ran_again_) {
    ran_again_ = true;
    if (stretch_.on_rerun) stretch_.on_rerun(true);
    run_again();
    if (stretch_.on_rerun) stretch_.on_rerun(false);
  }
  at::Tensor saved = place < made_again_.size() ? std::move(made_again_[place]) : at::Tensor();
  if (!saved.defined()) {
    throw ConfigError(fmt::format(
        "activation checkpointing: a unit that ran again made {} tensors for backward, expected "
        "the {} that it made in forward, each wanted once",
        made_again_.size(), forgotten_.size()));
  }
  return saved;
}

void CheckpointedCall::check_is_the_same(const at::Tensor& saved) const {
  const Described& first = forgotten_.at(made_again_.size());
  if (saved.sizes() == first.sizes && saved.scalar_type() == first.dtype) return;
  throw ConfigError(fmt::format(
      "activation checkpointing: a unit that ran again made a tensor of {} {}, expected one of "
      "{} {}, as in forward",
      c10::toString(saved.scalar_type()), fmt::join(saved.sizes(), " x "),
      c10::toString(first.dtype), fmt::join(first.sizes, " x ")));
}

}  // namespace

at::Tensor run_checkpointed(const at::Tensor& input, CheckpointedStretch stretch) {
  if (!at::GradMode::is_enabled()) return stretch.forward(input);
  install_engine();
  return std::make_shared<CheckpointedCall>(input, std::move(stretch))->run(input);
}

}  // namespace gradsync::models
