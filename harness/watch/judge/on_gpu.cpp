#include "harness/watch/judge/on_gpu.h"

#include <algorithm>
#include <map>
#include <utility>

#include "harness/base/clock.h"
#include "harness/stats/sample.h"

namespace gradsync::watch {
namespace {

std::optional<StepCounts::OnGpu> placed(const StepCounts& counts, const GpuWork& gpu) {
  const bool is_recorded =
      gpu.recorded.start_ns <= counts.step->start_ns && counts.step->end_ns <= gpu.recorded.end_ns;
  if (!is_recorded) return std::nullopt;
  const auto end_ns = done_ns(gpu, counts.step->end_ns);
  const auto optimizer_ns = done_ns(gpu, counts.optimizer_begin_ns());
  if (!end_ns || !optimizer_ns) return std::nullopt;
  const std::int64_t start_ns =
      done_ns(gpu, counts.step->start_ns).value_or(gpu.busy.front().start_ns);
  return StepCounts::OnGpu{{start_ns, *end_ns}, *optimizer_ns};
}

// The collectives of one step by name, each list in the order in which they were issued.
using ByName = std::map<std::string, EventPointers>;

ByName collectives_by_name(const RankEvents& rank, const StepCounts& counts) {
  ByName found;
  for (const Event& event : rank.events) {
    const bool is_in_step =
        event.start_ns >= counts.step->start_ns && event.start_ns <= counts.step->end_ns;
    if (is_in_step && has_communicated(event) && event.on_gpu) found[event.name].push_back(&event);
  }
  return found;
}

// Returns the step whose collectives are named: the usual one, or the last whose times are known.
const StepCounts& example_on_gpu(const UsualStep& usual) {
  if (usual.example->on_gpu) return *usual.example;
  const auto last = std::find_if(usual.all.rbegin(), usual.all.rend(),
                                 [](const StepCounts* step) { return step->on_gpu.has_value(); });
  return last == usual.all.rend() ? *usual.example : **last;
}

std::optional<MostExposed> most_exposed(const RankEvents& rank, const UsualStep& usual) {
  std::map<std::pair<std::string, std::size_t>, std::vector<double>> exposed_s;
  const ByName example = collectives_by_name(rank, example_on_gpu(usual));
  for (const StepCounts* step : usual.all) {
    for (const auto& [name, collectives] : collectives_by_name(rank, *step)) {
      const auto alike = example.find(name);
      if (alike == example.end() || alike->second.size() != collectives.size()) continue;
      for (std::size_t i = 0; i < collectives.size(); ++i) {
        exposed_s[{name, i}].push_back(seconds(collectives[i]->on_gpu->exposed_ns));
      }
    }
  }
  std::optional<MostExposed> most;
  for (const auto& [place, values] : exposed_s) {
    const double median_s = stats::quantile(values, 0.5);
    if (median_s <= (most ? most->exposed_s : 0)) continue;
    const EventPointers& alike = example.at(place.first);
    const std::int64_t bytes = alike[place.second]->bytes;
    most =
        MostExposed{place.first, static_cast<int>(place.second) + 1, static_cast<int>(alike.size()),
                    bytes < 0 ? std::nullopt : std::optional(bytes), median_s};
  }
  return most;
}

}  // namespace

void place_on_gpu(std::vector<StepCounts>& counts, const std::optional<GpuWork>& gpu) {
  if (!gpu) return;
  for (StepCounts& each : counts) each.on_gpu = placed(each, *gpu);
}

std::optional<StepOnGpu> usual_on_gpu(const RankEvents& rank, const UsualStep& usual) {
  std::vector<GpuTimes> steps;
  for (const StepCounts* step : usual.all) {
    if (step->on_gpu) steps.push_back(times_within(*rank.gpu, step->on_gpu->span));
  }
  if (steps.empty()) return std::nullopt;
  const auto median_s = [&](double GpuTimes::*time_s) {
    std::vector<double> values;
    for (const GpuTimes& step : steps) values.push_back(step.*time_s);
    return stats::quantile(values, 0.5);
  };
  StepOnGpu usual_step;
  usual_step.steps = static_cast<int>(steps.size());
  for (double GpuTimes::*time_s :
       {&GpuTimes::span_s, &GpuTimes::communication_s, &GpuTimes::computation_s,
        &GpuTimes::overlapped_s, &GpuTimes::exposed_s, &GpuTimes::waited_s, &GpuTimes::idle_s}) {
    usual_step.times.*time_s = median_s(time_s);
  }
  usual_step.most_exposed = most_exposed(rank, usual);
  return usual_step;
}

}  // namespace gradsync::watch
