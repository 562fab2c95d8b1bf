#include "harness/predict/traced_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "harness/stats/sample.h"
#include "harness/watch/judge/examined.h"
#include "harness/watch/judge/steps/usual_step.h"
#include "models/footprint.h"

namespace gradsync::predict {
namespace {

using watch::EventPointers;
using watch::Examined;
using watch::MicroBatch;
using watch::StepCounts;

constexpr const char* kDdp = "DistributedDataParallel";

// All-reduces of gradients in the order of their kernels.
EventPointers buckets_of(const MicroBatch& micro_batch) {
  EventPointers buckets;
  for (const watch::Event* each : micro_batch.in_backward) {
    if (each->name == "all_reduce" && each->on_gpu && each->bytes > 0) buckets.push_back(each);
  }
  std::ranges::stable_sort(buckets, {},
                           [](const watch::Event* each) { return each->on_gpu->ran.start_ns; });
  return buckets;
}

// Times of one step on its GPU, without its waits for collectives.
class Computed {
 public:
  Computed(const watch::GpuWork& gpu, const watch::GpuSpan& step) : gpu_(gpu), step_(step) {}

  // Until what the host had launched at `host_ns` was done.
  double launched_until_s(std::int64_t host_ns) const {
    return until_s(watch::done_ns(gpu_, host_ns).value_or(step_.start_ns));
  }
  double until_s(std::int64_t gpu_ns) const {
    const std::int64_t end_ns = std::clamp(gpu_ns, step_.start_ns, step_.end_ns);
    return seconds(end_ns - step_.start_ns -
                   watch::covered_ns(gpu_.waited, {step_.start_ns, end_ns}));
  }
  double all_s() const { return until_s(step_.end_ns); }

 private:
  const watch::GpuWork& gpu_;
  watch::GpuSpan step_;
};

// What one step says of each part.
struct Sample {
  std::vector<double> forwards_s;  // of each micro-batch
  std::vector<std::vector<double>>
      backwards_s;  // of each that synchronizes: by bucket, and the rest
  double optimizer_s = 0;
};

std::int64_t begin_of(const std::vector<const watch::Event*>& backwards) {
  return std::ranges::min(backwards, {}, &watch::Event::start_ns)->start_ns;
}
std::int64_t end_of(const std::vector<const watch::Event*>& backwards) {
  return std::ranges::max(backwards, {}, &watch::Event::end_ns)->end_ns;
}

Sample sample_of(const StepCounts& counts, const watch::GpuWork& gpu) {
  const Computed computed(gpu, counts.on_gpu->span);
  Sample sample;
  double done_s = 0;
  for (const MicroBatch& each : counts.step->micro_batches) {
    const double begun_s = std::max(done_s, computed.launched_until_s(begin_of(each.backwards)));
    const double ended_s = std::max(begun_s, computed.launched_until_s(end_of(each.backwards)));
    sample.forwards_s.push_back(begun_s - done_s);
    std::vector<double> parts_s;
    double at_s = begun_s;
    for (const watch::Event* bucket : buckets_of(each)) {
      const double ready_s =
          std::clamp(computed.until_s(bucket->on_gpu->ran.start_ns), at_s, ended_s);
      parts_s.push_back(ready_s - at_s);
      at_s = ready_s;
    }
    if (!parts_s.empty()) {
      parts_s.push_back(ended_s - at_s);
      sample.backwards_s.push_back(std::move(parts_s));
    }
    done_s = ended_s;
  }
  sample.optimizer_s = computed.all_s() - done_s;
  return sample;
}

double median(const std::vector<double>& values) {
  return stats::quantile(values, 0.5);
}

// A layer for each bucket, the first one reduced last, and in front of them what backward computes
// behind its last bucket, with all of forward.
StepModel model_of(const std::vector<Sample>& samples, const EventPointers& buckets) {
  std::vector<double> forwards_s;
  std::vector<double> optimizers_s;
  std::vector<std::vector<double>> parts_s(buckets.size() + 1);
  for (const Sample& sample : samples) {
    forwards_s.insert(forwards_s.end(), sample.forwards_s.begin(), sample.forwards_s.end());
    optimizers_s.push_back(sample.optimizer_s);
    for (const std::vector<double>& backward_s : sample.backwards_s) {
      if (backward_s.size() != parts_s.size()) continue;
      for (std::size_t i = 0; i < parts_s.size(); ++i) parts_s[i].push_back(backward_s[i]);
    }
  }
  StepModel model;
  model.name = "trace";
  model.optimizer_s = median(optimizers_s);
  model.layers.push_back(
      {"before the last bucket", median(forwards_s), median(parts_s.back()), {}});
  for (std::size_t i = buckets.size(); i-- > 0;) {
    model.layers.push_back({fmt::format("bucket {}", i + 1),
                            0,
                            median(parts_s[i]),
                            {buckets[i]->bytes / models::kFloatBytes}});
  }
  return model;
}

using Message = std::pair<Operation, std::int64_t>;  // its bytes

// The seconds of each kernel in a rank's usual steps.
std::map<Message, std::vector<double>> kernels_s(const watch::Counted& steps) {
  std::map<Message, std::vector<double>> found;
  const auto add = [&](const watch::Event* each, Operation operation) {
    const watch::GpuSpan& ran = each->on_gpu->ran;
    found[{operation, each->bytes}].push_back(seconds(ran.end_ns - ran.start_ns));
  };
  for (const StepCounts* step : steps) {
    for (const MicroBatch& micro_batch : step->step->micro_batches) {
      for (const watch::Event* each : buckets_of(micro_batch)) add(each, Operation::AllReduce);
      for (const watch::Event* each : micro_batch.in_forward) {
        if (each->name == "broadcast" && each->on_gpu && each->bytes > 0) {
          add(each, Operation::Broadcast);
        }
      }
    }
  }
  return found;
}

// The rank that comes last to a collective has its shortest kernel.
std::vector<MeasuredCollective> collectives_of(const std::vector<Examined>& ranks, int world_size) {
  std::map<Message, double> least_s;
  for (const Examined& rank : ranks) {
    const auto usual = watch::usual_step(rank.counts);
    if (!usual) continue;
    for (const auto& [what, values_s] : kernels_s(usual->all)) {
      const double of_rank_s = median(values_s);
      const auto known = least_s.emplace(what, of_rank_s).first;
      known->second = std::min(known->second, of_rank_s);
    }
  }
  std::vector<MeasuredCollective> rows;
  for (const auto& [what, least] : least_s) {
    rows.push_back({what.first, 1, world_size, static_cast<double>(what.second), least});
  }
  return rows;
}

[[noreturn]] void refuse(const std::string& why) {
  throw ConfigError("--trace: nothing can be predicted of this step: " + why);
}

void refuse_what_is_not_known(const std::vector<Examined>& ranks,
                              const std::optional<watch::UsualStep>& usual) {
  if (ranks.empty()) refuse("the files hold no process that trains");
  const watch::RankEvents& rank = *ranks[0].events;
  if (!rank.gpu) refuse("the files hold no GPU's times; record with ProfilerActivity.CUDA");
  for (const watch::Event& event : rank.events) {
    if (event.kind != watch::EventKind::Forward || event.name == kDdp) continue;
    refuse(fmt::format("got a model under {}, expected {}", event.name, kDdp));
  }
  if (rank.world_size < 2) refuse("the files do not say how many ranks there are, or one alone");
  if (!usual) refuse("the files hold no whole optimizer step");
}

}  // namespace

TracedModel traced_model(const std::vector<watch::RankEvents>& processes) {
  const std::vector<Examined> ranks = watch::examined(processes);
  const auto usual = ranks.empty() ? std::nullopt : watch::usual_step(ranks[0].counts);
  refuse_what_is_not_known(ranks, usual);
  std::vector<Sample> samples;
  std::vector<double> steps_s;
  for (const StepCounts* step : usual->all) {
    if (!step->on_gpu) continue;
    samples.push_back(sample_of(*step, *ranks[0].events->gpu));
    steps_s.push_back(step->duration_s());
  }
  EventPointers buckets;
  TracedModel traced;
  traced.options.syncs.clear();
  for (const MicroBatch& each : usual->example->step->micro_batches) {
    const EventPointers reduced = buckets_of(each);
    traced.options.syncs.push_back(!reduced.empty());
    if (!reduced.empty()) buckets = reduced;
  }
  if (buckets.empty() || samples.empty()) {
    refuse(
        "no all-reduce of gradients with known bytes ran on its GPU; record_shapes=True has bytes");
  }
  traced.model = model_of(samples, buckets);
  traced.options.buckets = {1, 1};  // bytes: every gradient is a bucket
  traced.ranks = ranks[0].events->world_size;
  traced.collectives = collectives_of(ranks, traced.ranks);
  for (const MeasuredCollective& each : traced.collectives) {
    if (each.operation != Operation::Broadcast) continue;
    traced.model.buffer_bytes.push_back(static_cast<std::int64_t>(each.bytes));
  }
  traced.step_s = median(steps_s);
  traced.steps = static_cast<int>(steps_s.size());
  return traced;
}

}  // namespace gradsync::predict
