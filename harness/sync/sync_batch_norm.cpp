#include "harness/sync/sync_batch_norm.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <memory>
#include <utility>

#include "harness/base/errors.h"
#include "harness/comm/ledger.h"
#include "harness/comm/process_groups.h"
#include "harness/comm/storage.h"
#include "harness/measure/memory.h"
#include "harness/sync/collectives.h"
#include "models/autograd_node.h"
#include "models/batch_norm.h"

namespace gradsync::sync {
namespace {

using measure::Phase;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// All dimensions but that of the channels: examples, rows, columns.
constexpr std::array<std::int64_t, 3> kAllButChannels{0, 2, 3};

at::Tensor sum_per_channel(const at::Tensor& values) {
  return values.sum(at::IntArrayRef(kAllButChannels));
}

at::Tensor per_channel(const at::Tensor& values) {
  return values.view({1, -1, 1, 1});
}

// A layer's conversation with the same layer of other ranks. Blocks; the memory of its messages
// goes back at once, though a thread of gloo may hold a tensor a moment longer.
class Peers {
 public:
  Peers(c10::intrusive_ptr<c10d::ProcessGroup> group, measure::StepRecorder* recorder)
      : group_(std::move(group)), recorder_(recorder) {}

  // Returns [ranks, values]: `of_rank` of every rank.
  at::Tensor gather(at::Tensor of_rank) const {
    const measure::MemoryScope memory(measure::MemoryCategory::Communication);
    at::Tensor of_all = at::empty({group_->getSize() * of_rank.numel()}, of_rank.options());
    wait(kBatchNormGather, Phase::Forward,
         [&] { return comm::all_gather(*group_, of_all, of_rank); });
    const at::Tensor gathered = of_all.clone();
    comm::release_storage(of_rank);
    comm::release_storage(of_all);
    return gathered.view({group_->getSize(), -1});
  }

  // Returns the sum of every rank's `of_rank`.
  at::Tensor sum(at::Tensor of_rank) const {
    const measure::MemoryScope memory(measure::MemoryCategory::Communication);
    std::vector<at::Tensor> message{std::move(of_rank)};
    wait(kBatchNormReduce, Phase::Backward, [&] { return group_->allreduce(message); });
    at::Tensor total = message[0].clone();
    comm::release_storage(message[0]);
    return total;
  }

 private:
  template <typename Issue>
  void wait(const char* recorded_as, Phase back_to, Issue issue) const {
    if (recorder_ != nullptr) recorder_->enter(Phase::Wait);
    {
      const comm::RecordedAs name(recorded_as);
      issue()->wait();
    }
    if (recorder_ != nullptr) recorder_->enter(back_to);
  }

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  measure::StepRecorder* recorder_;
};

// Statistics of all ranks' values together.
struct Statistics {
  at::Tensor mean;      // [channels]
  at::Tensor variance;  // [channels], biased
  at::Tensor count;     // [1], of values per channel
};

Statistics statistics_of_all(const at::Tensor& input, const Peers& peers) {
  const std::int64_t channels = input.size(1);
  const auto [variance, mean] =
      at::var_mean(input, at::IntArrayRef(kAllButChannels), /*unbiased=*/false);
  const std::int64_t of_channel = input.numel() / channels;
  const at::Tensor count = at::full({1}, static_cast<double>(of_channel), mean.options());
  const at::Tensor gathered = peers.gather(at::cat({mean, variance, count}));
  const at::Tensor means = gathered.narrow(1, 0, channels);
  const at::Tensor variances = gathered.narrow(1, channels, channels);
  const at::Tensor counts = gathered.narrow(1, 2 * channels, 1);
  Statistics all;
  all.count = counts.sum(0);
  all.mean = (means * counts).sum(0) / all.count;
  all.variance = ((variances + (means - all.mean).square()) * counts).sum(0) / all.count;
  return all;
}

struct Normalize : torch::autograd::Function<Normalize> {
  // `weight` and `bias` are the layer's, here so that autograd knows them. The layer and what it
  // points to outlive the graph.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const at::Tensor& bias,
                            models::BatchNorm2d* layer, const Peers* peers) {
    const Statistics all = statistics_of_all(input, *peers);
    layer->track(all.mean, all.variance * (all.count / (all.count - 1)));
    const at::Tensor inverse_deviation = (all.variance + models::kBatchNormEpsilon).rsqrt();
    context->save_for_backward({input, weight, all.mean, inverse_deviation, all.count});
    context->saved_data["peers"] = models::keep_pointer(peers);
    const at::Tensor scale = weight * inverse_deviation;
    return at::addcmul(per_channel(bias - all.mean * scale), input, per_channel(scale));
  }

  // With x the normalized input and n values over all ranks, the gradient of the input is
  // weight / deviation * (dy - sum(dy) / n - x * sum(dy * x) / n): both sums go over all ranks. The
  // gradients of weight and bias are this rank's own, like those of every other parameter.
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& input = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor& mean = saved[2];
    const at::Tensor& inverse_deviation = saved[3];
    const at::Tensor& count = saved[4];
    const auto* peers = models::kept_pointer<const Peers>(context->saved_data["peers"]);
    const at::Tensor& dy = gradients[0];
    const at::Tensor x = (input - per_channel(mean)) * per_channel(inverse_deviation);
    const at::Tensor sum_dy = sum_per_channel(dy);
    const at::Tensor sum_dy_x = sum_per_channel(dy * x);
    const at::Tensor of_all = peers->sum(at::cat({sum_dy, sum_dy_x})) / count;
    const auto means = of_all.split(input.size(1));
    const at::Tensor dx = per_channel(weight * inverse_deviation) *
                          (dy - per_channel(means[0]) - x * per_channel(means[1]));
    return {dx, sum_dy_x, sum_dy, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

void synchronize_batch_norm(models::Model& module,
                            const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                            measure::StepRecorder* recorder) {
  const auto layers = models::batch_norms_of(module);
  if (layers.empty()) {
    throw ConfigError(
        "sync_batch_norm: got true for a model without batch normalization, expected false");
  }
  if (group->getSize() == 1) return;
  const auto peers = std::make_shared<const Peers>(group, recorder);
  for (const auto& layer : layers) {
    layer->set_training_normalization([peers](models::BatchNorm2d& of, const at::Tensor& input) {
      return Normalize::apply(input, of.weight, of.bias, &of, peers.get());
    });
  }
}

std::vector<std::int64_t> batch_norm_channels(const models::Model& module) {
  std::vector<std::int64_t> channels;
  for (const auto& layer : models::batch_norms_of(module)) {
    channels.push_back(layer->weight.numel());
  }
  return channels;
}

}  // namespace gradsync::sync
