#include "harness/sync/pipeline.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <exception>
#include <functional>
#include <numeric>
#include <utility>

#include "harness/base/errors.h"
#include "harness/comm/storage.h"
#include "harness/measure/memory.h"
#include "harness/sync/parameters.h"

namespace gradsync::sync {

using measure::Phase;

namespace {

// Messages of this many micro-batches may be under way at once.
constexpr int kTags = 1 << 20;

}  // namespace

struct PipelineStage::HandOver : torch::autograd::Function<HandOver> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& output,
                            PipelineStage* stage) {
    const int tag = stage->tag_;
    context->saved_data["stage"] = models::keep_pointer(stage);
    context->saved_data["tag"] = tag;
    context->saved_data["shape"] = output.sizes().vec();
    stage->activations_[tag] = stage->send(output.detach().contiguous(), stage->rank_ + 1, tag);
    return at::zeros({}, output.options());
  }

  // The next stage has what it was sent: it has computed with it.
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto* stage = models::kept_pointer<PipelineStage>(context->saved_data["stage"]);
    const int tag = static_cast<int>(context->saved_data["tag"].toInt());
    at::Tensor gradient =
        at::empty(context->saved_data["shape"].toIntVector(), gradients[0].options());
    stage->receive(gradient, stage->rank_ + 1, tag, Phase::Backward);
    stage->activations_.at(tag).work->wait();
    stage->activations_.erase(tag);
    return {gradient, at::Tensor()};
  }
};

PipelineStage::PipelineStage(std::shared_ptr<models::Model> module,
                             c10::intrusive_ptr<c10d::ProcessGroup> process_group,
                             measure::StepRecorder* recorder)
    : module_(std::move(module)),
      process_group_(std::move(process_group)),
      recorder_(recorder),
      rank_(process_group_->getRank()),
      ranks_(process_group_->getSize()) {
  const std::vector<models::Unit> units = module_->units();
  if (units.size() < static_cast<std::size_t>(ranks_)) {
    throw ConfigError(
        fmt::format("wrapper pipeline: got a model of {} units on {} ranks, expected "
                    "at least one unit for each rank",
                    units.size(), ranks_));
  }
  const auto first_unit_of = [&](int rank) {
    return units.size() * static_cast<std::size_t>(rank) / static_cast<std::size_t>(ranks_);
  };
  first_ = first_unit_of(rank_);
  end_ = first_unit_of(rank_ + 1);
  take_parameters(units);
  module_->set_unit_hooks(this);
}

// A message whose memory goes before the peer has it is lost, and the peer waits for it in vain.
PipelineStage::~PipelineStage() {
  module_->set_unit_hooks(nullptr);
  for (const Sent& sent : activation_gradients_) {
    try {
      sent.work->wait();
    } catch (const std::exception&) {
      break;  // the peer is gone, or the group's deadline has passed: the others are not needed
    }
  }
}

void PipelineStage::take_parameters(const std::vector<models::Unit>& units) {
  std::map<std::string, std::size_t> unit_of;
  for (std::size_t i = 0; i < units.size(); ++i) {
    for (const std::string& name : units[i].parameters) unit_of[name] = i;
  }
  bool before_units = true;
  for (const auto& item : module_->named_parameters()) {
    const auto unit = unit_of.find(item.key());
    const bool in_unit = unit != unit_of.end();
    before_units = before_units && !in_unit;
    const bool mine = in_unit ? runs(unit->second) : before_units ? is_first() : is_last();
    if (!mine) {
      comm::release_storage(item.value().detach());
    } else if (item.value().requires_grad()) {
      parameters_.push_back(item.value());
      names_.push_back("parameter " + item.key());
    }
  }
  accumulators_ = label_parameter_memory(parameters_);
}

at::Tensor PipelineStage::forward(const models::Batch& batch) {
  const measure::PhaseScope scope(recorder_, Phase::Forward);
  const measure::MemoryScope memory(measure::MemoryCategory::Activation);
  batch_ = &batch;
  tag_ = (tag_ + 1) % kTags;
  traffic_ = {is_first() ? 0 : bytes_between(first_ - 1, batch),
              is_last() ? 0 : bytes_between(end_ - 1, batch)};
  at::Tensor loss = module_->loss(batch);
  batch_ = nullptr;
  return loss;
}

std::int64_t PipelineStage::bytes_between(std::size_t unit, const models::Batch& batch) const {
  const auto shape = module_->unit_output_shape(unit, batch);
  if (!shape) {
    throw ConfigError(
        "wrapper pipeline: got a model that does not say what its units hand on, expected one "
        "that can be cut into stages");
  }
  return std::accumulate(shape->begin(), shape->end(), static_cast<std::int64_t>(sizeof(float)),
                         std::multiplies<>());
}

at::Tensor PipelineStage::before_forward(std::size_t unit, at::Tensor input) {
  if (unit != first_ || is_first()) return input;
  input = at::empty(*module_->unit_output_shape(unit - 1, *batch_),
                    parameters_.front().options().requires_grad(false));
  receive(input, rank_ - 1, tag_, Phase::Forward);
  // The previous stage had come to the end of its backwards before it sent this, or has not begun
  // them: no gradient is on its way any more.
  for (const Sent& sent : activation_gradients_) sent.work->wait();
  activation_gradients_.clear();
  if (!at::GradMode::is_enabled()) return input;
  input.set_requires_grad(true);
  input.register_hook([this, tag = tag_](const at::Tensor& gradient) {
    activation_gradients_.push_back(send(gradient.detach().contiguous(), rank_ - 1, tag));
  });
  return input;
}

at::Tensor PipelineStage::after_forward(std::size_t unit, at::Tensor output) {
  if (unit + 1 != end_ || is_last()) return output;
  return HandOver::apply(output, this);
}

PipelineStage::Sent PipelineStage::send(const at::Tensor& tensor, int to, int tag) {
  std::vector<at::Tensor> message{tensor};
  return {process_group_->send(message, to, tag), tensor};
}

void PipelineStage::receive(at::Tensor& tensor, int from, int tag, Phase then) {
  if (recorder_ != nullptr) recorder_->enter(Phase::Wait);
  std::vector<at::Tensor> message{tensor};
  process_group_->recv(message, from, tag)->wait();
  if (recorder_ != nullptr) recorder_->enter(then);
}

std::vector<Collectives> PipelineStage::declared(const std::vector<bool>& syncs) const {
  return declared_collectives(traffic_, syncs.size());
}

}  // namespace gradsync::sync
