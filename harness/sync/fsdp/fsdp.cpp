#include "harness/sync/fsdp/fsdp.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <set>
#include <utility>

#include "harness/base/errors.h"
#include "harness/measure/memory.h"

namespace gradsync::sync {
namespace {

using measure::Phase;

// This rank's thread has nothing to compute while the scope lives.
class WaitScope {
 public:
  WaitScope(measure::StepRecorder* recorder, Phase back_to)
      : recorder_(recorder), back_to_(back_to) {
    if (recorder_ != nullptr) recorder_->enter(Phase::Wait);
  }
  ~WaitScope() {
    if (recorder_ != nullptr) recorder_->enter(back_to_);
  }
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;

 private:
  measure::StepRecorder* recorder_;
  Phase back_to_;
};

UnitDtypes dtypes_of(const FsdpOptions& options) {
  return {options.param_dtype,
          options.accumulate_in_reduce_dtype ? options.reduce_dtype : options.param_dtype,
          options.reduce_dtype};
}

}  // namespace

FullyShardedDataParallel::FullyShardedDataParallel(std::shared_ptr<models::Model> module,
                                                   const FsdpGroups& groups,
                                                   const FsdpOptions& options)
    : module_(std::move(module)), options_(options) {
  add_units(groups);
  if (root_ && root_->trained() > 0) shards_.push_back(root_->shard());
  for (const auto& unit : units_) {
    if (unit && unit->trained() > 0) shards_.push_back(unit->shard());
  }
  if (root_) watch_gradients(*root_, std::nullopt);
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (units_[i]) watch_gradients(*units_[i], i);
  }
  module_->set_unit_hooks(this);
}

FullyShardedDataParallel::~FullyShardedDataParallel() {
  module_->set_unit_hooks(nullptr);
}

void FullyShardedDataParallel::add_units(const FsdpGroups& groups) {
  const std::vector<models::Unit> described = module_->units();
  if (described.empty()) {
    throw ConfigError(
        "fsdp: the model does not say how it divides into units, expected one with "
        "layers of its own (models::Model::units())");
  }
  const auto named = module_->named_parameters();
  std::set<std::string> in_units;
  for (const models::Unit& unit : described) {
    in_units.insert(unit.parameters.begin(), unit.parameters.end());
  }
  std::vector<at::Tensor> rest;
  for (const auto& item : named) {
    if (!in_units.contains(item.key())) rest.push_back(item.value());
  }
  const UnitDtypes dtypes = dtypes_of(options_);
  std::optional<HostCopies> offload;
  if (options_.offload_parameters) offload.emplace(options_.recorder);
  const auto unit_of = [&](const std::string& name, std::vector<at::Tensor> parameters) {
    return std::make_unique<FlatUnit>(name, std::move(parameters), groups, dtypes,
                                      Casts(options_.recorder), offload);
  };
  if (!rest.empty()) root_ = unit_of("root", std::move(rest));
  for (const models::Unit& unit : described) {
    std::vector<at::Tensor> parameters;
    for (const std::string& name : unit.parameters) parameters.push_back(named[name]);
    units_.push_back(parameters.empty() ? nullptr : unit_of(unit.name, std::move(parameters)));
  }
  runs_backward_.assign(units_.size(), true);
}

// Autograd stores a parameter's gradient in its accumulator; the hook after it takes it from there.
void FullyShardedDataParallel::watch_gradients(FlatUnit& unit, std::optional<std::size_t> index) {
  for (std::size_t i = 0; i < unit.trained(); ++i) {
    auto accumulator = torch::autograd::impl::grad_accumulator(unit.parameter(i));
    accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [this, &unit, index, i](const torch::autograd::variable_list& outputs,
                                const torch::autograd::variable_list&) {
          unit.take_gradient(i);
          // What is in no unit is used at both ends of the model: its time comes last. What is
          // frozen may still be needed for the gradient of the unit's input: before_backward of the
          // unit before it says when that is complete.
          if (index && unit.is_all_trained() && unit.has_all_gradients()) {
            after_backward(unit);
            first_done_ = *index;
          }
          return outputs;
        }));
    accumulators_.push_back(std::move(accumulator));
  }
}

FlatUnit* FullyShardedDataParallel::unit_at(std::size_t index) {
  return index < units_.size() ? units_[index].get() : nullptr;
}

void FullyShardedDataParallel::gather(FlatUnit& unit, FlatUnit* next) {
  unit.start_gather();
  if (unit.gathering()) {
    const WaitScope wait(options_.recorder, phase_);
    unit.finish_gather();
  }
  if (options_.prefetch && next != nullptr) next->start_gather();
}

at::Tensor FullyShardedDataParallel::forward(const models::Batch& batch) {
  const measure::PhaseScope phase(options_.recorder, Phase::Forward);
  const measure::MemoryScope memory(measure::MemoryCategory::Activation);
  phase_ = Phase::Forward;
  if (root_) {
    measure::meter().set_phase("forward", root_->name());
    gather(*root_, unit_at(0));
  }
  at::Tensor loss = module_->loss(batch);
  if (loss.requires_grad()) {
    loss.register_hook([this](const at::Tensor&) { begin_backward(); });
  } else if (root_) {
    root_->reshard();
  }
  return loss;
}

at::Tensor FullyShardedDataParallel::before_forward(std::size_t index, at::Tensor input) {
  if (FlatUnit* unit = unit_at(index)) {
    measure::meter().set_phase("forward", unit->name());
    gather(*unit, unit_at(index + 1));
  }
  if (input.is_floating_point()) input = input.to(options_.param_dtype);
  return input;
}

at::Tensor FullyShardedDataParallel::after_forward(std::size_t index, at::Tensor output) {
  FlatUnit* unit = unit_at(index);
  const bool backward_follows = output.requires_grad();
  if (at::GradMode::is_enabled()) runs_backward_[index] = backward_follows;
  const bool kept = at::GradMode::is_enabled() && !options_.reshard_after_forward;
  if (unit != nullptr && !kept) unit->reshard();
  // Runs when the gradient of the output is complete, before anything uses it: the units after this
  // one are done, and this one is next.
  if (backward_follows) {
    output.register_hook([this, index](const at::Tensor&) { before_backward(index); });
  }
  return output;
}

void FullyShardedDataParallel::begin_backward() {
  phase_ = Phase::Backward;
  first_done_ = units_.size();
  if (root_) root_->begin_backward();
  if (root_ && options_.prefetch && units_.back() && !runs_backward_.back()) {
    units_.back()->start_gather();
  }
  for (const auto& unit : units_) {
    if (unit) unit->begin_backward();
  }
  torch::autograd::Engine::get_default_engine().queue_callback([this] { end_backward(); });
}

void FullyShardedDataParallel::before_backward(std::size_t index) {
  // Units with parameters that this micro-batch did not use never had all gradients.
  while (first_done_ > index + 1) {
    --first_done_;
    if (FlatUnit* later = unit_at(first_done_)) after_backward(*later);
  }
  if (FlatUnit* unit = unit_at(index)) {
    measure::meter().set_phase("backward", unit->name());
    gather(*unit, index > 0 ? unit_at(index - 1) : nullptr);
  }
}

// The decision, made here, in backward: reduce this unit's gradient, or keep it whole.
void FullyShardedDataParallel::after_backward(FlatUnit& unit) {
  const bool sync = require_backward_grad_sync();
  if (sync || options_.reshard_after_backward) unit.reshard();
  if (!sync || unit.trained() == 0) return;
  finish_reduce();
  unit.start_reduce();
  reducing_ = &unit;
}

void FullyShardedDataParallel::finish_reduce() {
  if (reducing_ == nullptr) return;
  FlatUnit& unit = *std::exchange(reducing_, nullptr);
  {
    const WaitScope wait(options_.recorder, phase_);
    unit.finish_reduce();
  }
  if (step_) step();
}

// The optimizer's, here, of the unit whose gradient has just become final.
void FullyShardedDataParallel::step() {
  if (options_.recorder != nullptr) options_.recorder->enter(Phase::Optimizer);
  const auto outside = measure::meter().place();
  measure::meter().set_phase("optimizer", outside->unit);
  step_();
  measure::meter().set_phase(outside->phase, outside->unit);
  if (options_.recorder != nullptr) options_.recorder->enter(phase_);
}

// Autograd's last callback: the graph is done. Whatever has not been seen to is, last unit first.
void FullyShardedDataParallel::end_backward() {
  if (options_.recorder != nullptr) options_.recorder->enter(Phase::Backward);
  while (first_done_ > 0) {
    --first_done_;
    FlatUnit* unit = unit_at(first_done_);
    if (unit == nullptr) continue;
    if (unit->gathering()) unit->reshard();  // ahead, in vain
    after_backward(*unit);
  }
  if (root_) {
    measure::meter().set_phase("backward", root_->name());
    after_backward(*root_);
  }
  finish_reduce();
  phase_ = Phase::Forward;
}

std::vector<std::string> FullyShardedDataParallel::parameter_names() const {
  std::vector<std::string> names;
  if (root_ && root_->trained() > 0) names.push_back("unit " + root_->name());
  for (const auto& unit : units_) {
    if (unit && unit->trained() > 0) names.push_back("unit " + unit->name());
  }
  return names;
}

std::vector<GradientSource> FullyShardedDataParallel::gradient_sources() const {
  std::vector<GradientSource> sources;
  if (root_ && root_->trained() > 0) sources.push_back(root_->gradient_source());
  for (const auto& unit : units_) {
    if (unit && unit->trained() > 0) sources.push_back(unit->gradient_source());
  }
  return sources;
}

std::vector<std::int64_t> FullyShardedDataParallel::reduction_bytes() const {
  std::vector<std::int64_t> bytes;
  for (const auto& unit : units_) {
    if (unit && unit->trained() > 0) bytes.insert(bytes.begin(), unit->traffic().reduce_bytes);
  }
  if (root_ && root_->trained() > 0) bytes.push_back(root_->traffic().reduce_bytes);
  return bytes;
}

std::vector<Collectives> FullyShardedDataParallel::declared(const std::vector<bool>& syncs) const {
  FsdpTraffic traffic;
  if (root_) traffic.root = root_->traffic();
  for (std::size_t i = 0; i < units_.size(); ++i) {
    traffic.units.push_back(units_[i] ? units_[i]->traffic() : UnitTraffic{});
    traffic.units.back().runs_backward = runs_backward_[i];
  }
  traffic.prefetch = options_.prefetch;
  traffic.reshard_after_forward = options_.reshard_after_forward;
  traffic.reshard_after_backward = options_.reshard_after_backward;
  return declared_collectives(traffic, syncs);
}

at::Tensor FullyShardedDataParallel::whole_parameter(const std::string& name) {
  const at::Tensor wanted = module_->named_parameters()[name];
  const auto whole_of = [&](FlatUnit& unit) {
    for (std::size_t i = 0; i < unit.size(); ++i) {
      if (!unit.parameter(i).is_same(wanted)) continue;
      unit.start_gather();
      unit.finish_gather();
      at::Tensor whole = wanted.detach().clone();
      unit.reshard();
      return whole;
    }
    return at::Tensor();
  };
  at::Tensor whole = root_ ? whole_of(*root_) : at::Tensor();
  for (const auto& unit : units_) {
    if (!whole.defined() && unit) whole = whole_of(*unit);
  }
  return whole;
}

}  // namespace gradsync::sync
