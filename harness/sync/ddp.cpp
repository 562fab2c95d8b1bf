#include "harness/sync/ddp.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/utils/tensor_flatten.h>

#include <cctype>
#include <limits>
#include <map>
#include <string>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <type_traits>
#include <utility>

#include "harness/base/errors.h"
#include "harness/comm/storage.h"
#include "harness/measure/memory.h"
#include "harness/sync/parameters.h"
#include "harness/sync/sync_batch_norm.h"
#include "models/autocast.h"

namespace gradsync::sync {
namespace {

// How much a coalesced broadcast of parameters or buffers packs into one message.
constexpr std::size_t kBroadcastBucketBytes = std::size_t{250} << 20;

// The identity, whose backward runs before every other node of the model: the place where
// static_graph, in its first backward, asks the Reducer to all-reduce everything at the end.
// It also keeps an output that the loss does not use from receiving a gradient of zeros.
struct Sink : torch::autograd::Function<Sink> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& output,
                            c10d::Reducer* delay_all_reduce_of) {
    context->set_materialize_grads(false);
    context->saved_data["reducer"] = models::keep_pointer(delay_all_reduce_of);
    return output.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto* reducer = models::kept_pointer<c10d::Reducer>(context->saved_data["reducer"]);
    if (reducer != nullptr) {
      torch::autograd::Engine::get_default_engine().queue_callback(
          [reducer] { reducer->delay_all_reduce(); });
    }
    return {gradients[0], at::Tensor()};
  }
};

// What c10d says at the forward after a backward that did not end, and where in that it counts the
// parameters which got no gradient, by their number: "... for rank 1: 2 3".
constexpr const char* kUnfinished = "Expected to have finished reduction in the prior iteration";
constexpr const char* kWithoutGradient = "did not receive grad for rank ";

std::vector<std::size_t> numbers_without_gradient(const std::string& said) {
  std::vector<std::size_t> numbers;
  auto at = said.find(kWithoutGradient);
  if (at != std::string::npos) at = said.find(':', at);
  bool in_number = false;
  for (; at < said.size() && said[at] != '\n'; ++at) {
    const bool digit = std::isdigit(static_cast<unsigned char>(said[at])) != 0;
    if (digit && !in_number) numbers.push_back(0);
    if (digit) numbers.back() = 10 * numbers.back() + static_cast<std::size_t>(said[at] - '0');
    in_number = digit;
  }
  return numbers;
}

// "parameter left_weight and 1 more"
std::string words_for(const std::vector<std::size_t>& numbers,
                      const std::vector<std::string>& names) {
  if (numbers.empty() || numbers.front() >= names.size()) return "a parameter";
  std::string words = names[numbers.front()];
  if (numbers.size() > 1) words += " and " + std::to_string(numbers.size() - 1) + " more";
  return words;
}

}  // namespace

DistributedDataParallel::DistributedDataParallel(
    std::shared_ptr<models::Model> module, c10::intrusive_ptr<c10d::ProcessGroup> process_group,
    const DdpOptions& options)
    : module_(std::move(module)), process_group_(std::move(process_group)), options_(options) {
  for (const at::Tensor& parameter : module_->parameters()) {
    if (parameter.requires_grad()) parameters_.push_back(parameter);
  }
  buffers_ = module_->buffers();
  if (parameters_.empty()) {
    throw ConfigError("DistributedDataParallel needs a model with a parameter that requires grad");
  }
  if (options_.sync_batch_norm) {
    synchronize_batch_norm(*module_, process_group_, options_.recorder);
  }
  const std::int64_t held_before = measure::meter().allocated_bytes();
  c10d::verify_params_across_processes(process_group_, parameters_, std::nullopt);
  std::vector<at::Tensor> states;
  for (const at::Tensor& parameter : module_->parameters()) states.push_back(parameter.detach());
  if (options_.broadcast_buffers) {
    for (const at::Tensor& buffer : buffers_) states.push_back(buffer.detach());
  }
  c10d::broadcast_coalesced(process_group_, states, kBroadcastBucketBytes, 0);
  comm::await_release(held_before);
  build_reducer();
  accumulators_ = label_parameter_memory(module_->parameters());  // after the Reducer's hooks
}

void DistributedDataParallel::build_reducer() {
  const measure::MemoryScope memory(measure::MemoryCategory::Communication);
  const std::vector<bool> sparse(parameters_.size(), false);
  // Until the first synchronized backward has shown in which order gradients become ready, one
  // bucket holds everything; the caps apply at the rebuild.
  std::vector<std::size_t> limits{std::numeric_limits<std::int64_t>::max()};
  if (searches_for_unused()) {
    limits = {static_cast<std::size_t>(options_.first_bucket_bytes),
              static_cast<std::size_t>(options_.bucket_cap_bytes)};
  }
  auto [indices, _] = c10d::compute_bucket_assignment_by_size(parameters_, limits, sparse);
  std::reverse(indices.begin(), indices.end());  // gradients are produced last layer first
  // Later releases of torch append defaulted parameters, so this call serves all of them.
  reducer_ = std::make_shared<c10d::Reducer>(
      parameters_, std::move(indices), process_group_, sparse, options_.bucket_cap_bytes,
      options_.find_unused_parameters, options_.gradient_as_bucket_view,
      std::unordered_map<std::size_t, std::string>{}, options_.first_bucket_bytes,
      /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
      std::vector<std::int64_t>{});
  logger_ = std::make_shared<c10d::Logger>(reducer_);
  reducer_->set_logger(logger_);
  logger_->set_construction_data_and_log(module_->name(), {}, -1, options_.broadcast_buffers,
                                         options_.sync_batch_norm, options_.static_graph);
  if (options_.static_graph) {
    reducer_->set_static_graph();
    logger_->set_static_graph();
  }
  if (options_.compress_to) compress_gradients();
}

void DistributedDataParallel::compress_gradients() {
  for (const at::Tensor& parameter : parameters_) {
    if (parameter.scalar_type() == at::kFloat) continue;
    throw ConfigError(std::string("compress_to: got a parameter of ") +
                      c10::toString(parameter.scalar_type()) + ", expected Float");
  }
  reducer_->register_comm_hook(make_compress_hook(process_group_, *options_.compress_to));
}

// The heart of the matter. The flag that no_sync clears is read here, in forward, and only here:
// after_forward arms the Reducer (prepare_for_backward) when it is set. The hooks that run in
// backward look at whether the Reducer was armed and never at the flag. So a no_sync that encloses
// only backward flips a flag that is not read, and every gradient is reduced as if no_sync were not
// there.
at::Tensor DistributedDataParallel::forward(const models::Batch& batch) {
  const measure::PhaseScope scope(options_.recorder, measure::Phase::Forward);
  before_forward();
  const measure::MemoryScope memory(measure::MemoryCategory::Activation);
  return after_forward(loss_of(batch));
}

at::Tensor DistributedDataParallel::loss_of(const models::Batch& batch) {
  const models::AutocastScope autocast(parameters_.front().device().type(), options_.autocast_to);
  return module_->loss(batch);
}

void DistributedDataParallel::before_forward() {
  const measure::MemoryScope memory(measure::MemoryCategory::Communication);
  const bool armed = at::GradMode::is_enabled() && require_backward_grad_sync();
  if (armed) {
    logger_->set_runtime_stats_and_log();
    reducer_->prepare_for_forward();
  }
  if (options_.static_graph && !armed && !delay_all_reduce_enqueued_ &&
      at::GradMode::is_enabled()) {
    throw ConfigError(
        "static_graph: the first micro-batch is inside no_sync, expected a synchronized one first "
        "(torch's Reducer learns the graph from it)");
  }
  if (at::GradMode::is_enabled()) rebuild_buckets();
  if (require_forward_param_sync_ && broadcasts_buffers()) sync_buffers();
}

at::Tensor DistributedDataParallel::after_forward(at::Tensor loss) {
  if (at::GradMode::is_enabled() && require_backward_grad_sync()) {
    require_forward_param_sync_ = true;
    reducer_->prepare_for_backward(searches_for_unused() ? std::vector<at::Tensor>{loss}
                                                         : std::vector<at::Tensor>{});
  } else {
    require_forward_param_sync_ = false;
  }
  if (searches_for_unused()) return Sink::apply(loss, nullptr);
  if (options_.static_graph && !delay_all_reduce_enqueued_ && at::GradMode::is_enabled()) {
    delay_all_reduce_enqueued_ = true;
    return Sink::apply(loss, reducer_.get());
  }
  return loss;
}

// Arms the Reducer, which the forwards under no_sync did not. To find unused parameters it would
// need the graph of the outputs of those forwards.
void DistributedDataParallel::trigger_sync_in_backward() {
  if (searches_for_unused()) {
    throw ConfigError(
        "trigger_sync_in_backward: the model has find_unused_parameters, expected a model without "
        "(they are found in forward, and without it all count as unused)");
  }
  reducer_->prepare_for_backward(std::vector<at::Tensor>{});
}

// Does so once; looks each time whether the backward before has ended.
void DistributedDataParallel::rebuild_buckets() {
  try {
    reducer_->rebuild_buckets();
  } catch (const c10::Error& error) {
    const std::string said = error.what_without_backtrace();
    if (said.find(kUnfinished) == std::string::npos) throw;
    throw UnfinishedReduction(
        words_for(numbers_without_gradient(said), parameter_names()) +
        " got no gradient in the last synchronized micro-batch, whose gradients are therefore not "
        "the mean over the ranks; " +
        (options_.static_graph
             ? "the training graph has changed, expected that of the first one, under static_graph"
             : "expected every parameter in use, or find_unused_parameters") +
        " (torch: " + kUnfinished + ")");
  }
}

// One message for each dtype, as c10d::broadcast_coalesced packs them. But the message's memory
// goes back at once, though a thread of gloo may hold the tensor a moment longer: a peak is then
// the same byte every time.
void DistributedDataParallel::sync_buffers() {
  const at::NoGradGuard no_grad;
  const auto enter = [this](measure::Phase phase) {
    if (options_.recorder != nullptr) options_.recorder->enter(phase);
  };
  std::map<at::ScalarType, std::vector<at::Tensor>> by_dtype;
  for (const at::Tensor& buffer : buffers_) by_dtype[buffer.scalar_type()].push_back(buffer);
  for (const auto& [type, buffers] : by_dtype) {
    std::vector<at::Tensor> message{torch::utils::flatten_dense_tensors(buffers)};
    if (buffers.size() == 1) message[0] = message[0].clone();
    enter(measure::Phase::Wait);
    process_group_->broadcast(message)->wait();
    enter(measure::Phase::Copy);
    const auto values = torch::utils::unflatten_dense_tensors(message[0], buffers);
    for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i].copy_(values[i]);
    comm::release_storage(message[0]);
  }
  enter(measure::Phase::Forward);
}

std::vector<std::string> DistributedDataParallel::parameter_names() const {
  return trained_parameter_names(*module_);
}

std::int64_t DistributedDataParallel::bytes_sent_of(std::int64_t gradient_bytes) const {
  if (!options_.compress_to) return gradient_bytes;
  return gradient_bytes / static_cast<std::int64_t>(c10::elementSize(at::kFloat) /
                                                    c10::elementSize(*options_.compress_to));
}

std::vector<std::int64_t> DistributedDataParallel::reduction_bytes() const {
  std::vector<std::int64_t> bytes = logger_->get_bucket_sizes();
  for (std::int64_t& bucket : bytes) bucket = bytes_sent_of(bucket);
  return bytes;
}

std::optional<std::int64_t> DistributedDataParallel::gradient_bytes() const {
  return bytes_sent_of(trained_bytes(*module_));
}

std::vector<std::int64_t> DistributedDataParallel::buffer_bytes_by_dtype() const {
  std::map<at::ScalarType, std::int64_t> bytes;
  for (const at::Tensor& buffer : buffers_) {
    bytes[buffer.scalar_type()] += static_cast<std::int64_t>(buffer.nbytes());
  }
  std::vector<std::int64_t> sizes;
  for (const auto& [type, size] : bytes) sizes.push_back(size);
  return sizes;
}

std::vector<Collectives> DistributedDataParallel::declared(const std::vector<bool>& syncs) const {
  DdpTraffic traffic;
  traffic.bucket_bytes = reduction_bytes();
  if (broadcasts_buffers()) traffic.buffer_bytes = buffer_bytes_by_dtype();
  if (searches_for_unused()) {
    // The Reducer's map of locally used parameters, int32 per parameter.
    traffic.unused_map_bytes = static_cast<std::int64_t>(parameters_.size() * sizeof(std::int32_t));
  }
  if (options_.sync_batch_norm) {
    traffic.batch_norm =
        batch_norm_collectives(batch_norm_channels(*module_), process_group_->getSize());
  }
  return declared_collectives(traffic, syncs);
}

}  // namespace gradsync::sync
