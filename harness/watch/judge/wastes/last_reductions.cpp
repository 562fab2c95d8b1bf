#include "harness/watch/judge/wastes/last_reductions.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "harness/watch/judge/steps/waits.h"

namespace gradsync::watch {
namespace {

// What the job all-reduces beside gradients: a loss, a norm, a count of tokens.
constexpr std::int64_t kScalarBytes = 64;

// So many models of one forward and one backward are parts of one. Fewer: the advice to wrap them
// as one goes to a generator with several critics, too.
constexpr std::size_t kManyModels = 8;

// A share of the backward's time: DDP issues buckets one right after the other where all were
// complete before. Larger: layers that have most of the parameters and little to compute pass for
// that.
constexpr double kAtOnce = 0.01;

bool is_point_to_point(const Event* collective) {
  return collective->name.find("send") != std::string::npos ||
         collective->name.find("recv") != std::string::npos;
}

bool is_all_reduce(const Event* collective) {
  const bool may_be_of_gradients =
      collective->role == GroupRole::Unknown || collective->role == GroupRole::DataParallel;
  return may_be_of_gradients && collective->name.find("all_reduce") != std::string::npos;
}

int gradients_of(const Event& backward) {
  int count = 0;
  std::from_chars(backward.detail.data(), backward.detail.data() + backward.detail.size(), count);
  return count;
}

// The last micro-batch of a wrapped model that reduced in its backward; null where there is none.
const MicroBatch* last_synchronized(const Step& step) {
  const auto& all = step.micro_batches;
  const auto last = std::find_if(all.rbegin(), all.rend(), [](const MicroBatch& micro_batch) {
    return is_wrapped(micro_batch) && !micro_batch.is_unsynced &&
           !reductions_of(micro_batch).empty();
  });
  return last == all.rend() ? nullptr : &*last;
}

// Where one bucket has all gradients it is that one: what else is reduced then is none of them.
EventPointers gradients_among(const EventPointers& reductions, std::int64_t gradient_bytes) {
  for (const Event* each : reductions) {
    if (each->bytes == gradient_bytes) return {each};
  }
  return reductions;
}

std::optional<LastReductions> of_ddp(const RankEvents& rank, const Steps& steps, const Step& step) {
  const MicroBatch* last = last_synchronized(step);
  if (last == nullptr || last->backwards.size() != 1) return std::nullopt;
  const Models models = models_of(*last);
  const bool are_parts = models.size() >= kManyModels && last->inner_forwards.empty();
  if (models.size() != 1 && !are_parts) return std::nullopt;
  LastReductions found;
  found.models = models.size();
  found.backward = last->backwards.front();
  found.wrap = wrap_of(rank, *models.begin());
  const auto size = steps.gradient_bytes.find(*models.begin());
  if (found.wrap == nullptr || size == steps.gradient_bytes.end()) return std::nullopt;
  found.reductions =
      are_parts ? reductions_of(*last) : gradients_among(reductions_of(*last), size->second);
  return found;
}

// Returns whether the job can reduce by hand. One that exchanges activations, by hand or not, is no
// job of this kind.
bool may_reduce_by_hand(const Step& step, const MicroBatch& last) {
  return step.in_closure == nullptr && last.backwards.size() == 1 &&
         std::ranges::none_of(last.in_forward, is_all_reduce) &&
         std::ranges::none_of(last.in_forward, is_point_to_point) &&
         std::ranges::none_of(last.in_backward, is_point_to_point) &&
         std::ranges::none_of(step.outside, is_point_to_point);
}

std::optional<LastReductions> by_hand(const Step& step) {
  const MicroBatch& last = step.micro_batches.back();
  if (!may_reduce_by_hand(step, last)) return std::nullopt;
  LastReductions found;
  found.backward = last.backwards.front();
  EventPointers all = last.in_backward;
  all.insert(all.end(), step.outside.begin(), step.outside.end());
  for (const Event* each : all) {
    const bool is_before_optimizer = each->start_ns < step.optimizers.front()->start_ns;
    if (!is_all_reduce(each) || each->start_ns < found.backward->start_ns || !is_before_optimizer) {
      continue;
    }
    found.reductions.push_back(each);
  }
  if (std::ssize(found.reductions) != gradients_of(*found.backward)) {
    std::erase_if(found.reductions, [](const Event* each) {
      return each->bytes >= 0 && each->bytes <= kScalarBytes;
    });
  }
  return found;
}

// How long a GPU computes what the host launches in a backward.
std::optional<std::int64_t> computing_ns(const GpuWork& gpu, const Event& backward) {
  const auto begin_ns = done_ns(gpu, backward.start_ns);
  const auto end_ns = done_ns(gpu, backward.end_ns);
  if (!begin_ns || !end_ns) return std::nullopt;
  return covered_ns(gpu.computation, {*begin_ns, *end_ns});
}

}  // namespace

std::optional<LastReductions> last_reductions(const RankEvents& rank, const Steps& steps,
                                              const StepCounts& counts) {
  const Step& step = *counts.step;
  const bool is_fsdp = std::ranges::any_of(
      step.micro_batches, [](const MicroBatch& micro_batch) { return is_of_fsdp(micro_batch); });
  if (is_fsdp || step.micro_batches.empty() || step.optimizers.empty()) return std::nullopt;
  const bool is_of_ddp = counts.synchronized > 0 && !counts.is_by_bytes;
  auto found = is_of_ddp ? of_ddp(rank, steps, step) : by_hand(step);
  if (!found || found->reductions.empty()) return std::nullopt;
  for (const Event* each : found->reductions) {
    if (each->bytes < 0) return std::nullopt;
    found->bytes += each->bytes;
  }
  found->gradients = gradients_of(*found->backward);
  if (rank.gpu) found->backward_on_gpu_ns = computing_ns(*rank.gpu, *found->backward);
  return found;
}

std::optional<std::int64_t> option_of(const Event& wrap, const std::string& name) {
  const std::string_view text = word_value(wrap, name).value_or("");
  std::int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc()) return std::nullopt;
  return value;
}

bool begin_behind_backward(const LastReductions& last) {
  const std::int64_t first_ns = last.reductions.front()->start_ns;
  if (last.wrap == nullptr) return first_ns >= last.backward->end_ns;
  const std::int64_t last_ns = last.reductions.back()->start_ns;
  return static_cast<double>(last_ns - first_ns) <=
         kAtOnce * static_cast<double>(last_ns - last.backward->start_ns);
}

bool are_of_one_tensor_each(const LastReductions& last) {
  return std::ssize(last.reductions) == last.gradients;
}

std::int64_t backward_ns(const LastReductions& last) {
  if (last.backward_on_gpu_ns) return *last.backward_on_gpu_ns;
  const std::int64_t end_ns =
      last.wrap == nullptr ? last.backward->end_ns : last.reductions.back()->start_ns;
  return end_ns - last.backward->start_ns;
}

std::vector<std::int64_t> wires_ns(const LastReductions& last) {
  const EventPointers& all = last.reductions;
  const auto is_known = [](const Event* each) { return complete_ns(*each) > begun_ns(*each); };
  const bool is_on_gpu = all.front()->on_gpu.has_value();
  if (!(is_on_gpu ? std::ranges::all_of(all, is_known) : std::ranges::any_of(all, is_known))) {
    return {};
  }
  std::vector<std::size_t> by_end(all.size());
  std::iota(by_end.begin(), by_end.end(), 0);
  std::ranges::stable_sort(by_end, {}, [&](std::size_t i) { return complete_ns(*all[i]); });
  std::vector<std::int64_t> wires(all.size());
  const bool are_a_loop = !is_on_gpu && last.wrap == nullptr && begin_behind_backward(last);
  std::int64_t free_ns = begun_ns(*all[by_end.front()]);
  for (const std::size_t i : by_end) {
    const std::int64_t from_ns = are_a_loop ? free_ns : std::max(begun_ns(*all[i]), free_ns);
    wires[i] = complete_ns(*all[i]) - from_ns;
    free_ns = complete_ns(*all[i]);
  }
  return wires;
}

std::int64_t exposed_ns(const LastReductions& last) {
  return waited_ns(last.reductions, false).value_or(0);
}

}  // namespace gradsync::watch
