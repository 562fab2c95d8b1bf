#include "harness/predict/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/footprint.h"

namespace gradsync::predict {
namespace {

// The normal distribution's 95 % point: 5 % lie beyond either end.
constexpr double kNinetyPercent = 1.6448536269514722;

// The inputs of a prediction, which is repeated with changed ones.
struct Inputs {
  StepModel model;
  Network network;
  StepOptions options;

  double step_s() const { return step_schedule(model, network, options).end_s(); }
};

void scale_compute(Inputs& inputs, double factor) {
  for (Layer& layer : inputs.model.layers) {
    layer.forward_s *= factor;
    layer.backward_s *= factor;
  }
  inputs.model.optimizer_s *= factor;
}

void scale_rates(Inputs& inputs, double factor) {
  for (auto* link : {&inputs.network.intra, &inputs.network.inter}) {
    if (*link) (*link)->bytes_per_s *= factor;
  }
}

void scale_host(Inputs& inputs, double factor) {
  inputs.network.host.collective_s *= factor;
  inputs.network.host.per_byte_s *= factor;
  inputs.network.host.copy_per_byte_s *= factor;
  inputs.network.host.micro_batch_s *= factor;
  inputs.network.host.processor_per_byte_s *= factor;
  inputs.network.host.fill_per_byte_s *= factor;
  inputs.network.host.shard_per_byte_s *= factor;
  for (auto* link : {&inputs.network.intra, &inputs.network.inter}) {
    if (*link) (*link)->latency_s *= factor;
  }
}

void scale_pause(Inputs& inputs, double factor) {
  inputs.network.gather_pause *= factor;
}

// Returns half of what lies between the steps of 1 sd more and of 1 sd less.
double deviation_s(const Inputs& inputs, void (*scale)(Inputs&, double), double share) {
  if (share == 0) return 0;
  Inputs more = inputs;
  Inputs less = inputs;
  scale(more, 1 + share);
  scale(less, 1 / (1 + share));
  return std::abs(more.step_s() - less.step_s()) / 2;
}

stats::Interval interval_of(const Inputs& inputs, const Doubt& doubt, double step_s) {
  const double sd = std::hypot(std::hypot(deviation_s(inputs, scale_compute, doubt.compute),
                                          deviation_s(inputs, scale_rates, doubt.rate)),
                               std::hypot(deviation_s(inputs, scale_host, doubt.host),
                                          deviation_s(inputs, scale_pause, doubt.pause)));
  const double half = kNinetyPercent * sd;
  return {std::max(0.0, step_s - half), step_s + half};
}

PathParts parts_of(const std::vector<Span>& path) {
  PathParts parts;
  for (const Span& span : path) {
    if (span.lane == Lane::Compute) parts.compute_s += span.length_s();
    parts.wire_s += span.parts.wire_s;
    parts.latency_s += span.parts.latency_s;
    parts.host_s += span.parts.host_s;
  }
  return parts;
}

// The longest part of the wire's on the path, by what it carries: "bucket 2 to bucket 14".
std::string longest_chain(const std::vector<Span>& path) {
  std::string name;
  double longest_s = 0;
  for (std::size_t begin = 0; begin < path.size();) {
    std::size_t end = begin;
    while (end < path.size() && path[end].lane == Lane::Wire) ++end;
    const std::size_t beyond = end;
    while (end > begin + 1 && path[end - 1].name == "buffers") --end;  // of the next micro-batch
    if (end > begin && path[end - 1].end_s - path[begin].start_s > longest_s) {
      longest_s = path[end - 1].end_s - path[begin].start_s;
      name = path[begin].name;
      if (end - begin > 1) name += " to " + path[end - 1].name;
    }
    begin = beyond + 1;
  }
  return name;
}

std::string limit_of(const PathParts& parts, const std::vector<Span>& path,
                     const Network& network) {
  const double most = std::max({parts.compute_s, parts.wire_s, parts.latency_s, parts.host_s});
  const double all = parts.compute_s + parts.wire_s + parts.latency_s + parts.host_s;
  constexpr double kPercent = 100;
  const auto share = all > 0 ? std::round(kPercent * most / all) : 0;
  if (most == parts.compute_s) return fmt::format("compute {:.0f} %", share);
  const char* link = network.nodes > 1 ? "link between nodes" : "link inside the node";
  const std::string what = most == parts.wire_s      ? link
                           : most == parts.latency_s ? "latency"
                                                     : "the host's part of transfers";
  return fmt::format("{} {:.0f} %: {}", what, share, longest_chain(path));
}

std::vector<Gain> gains_of(const Inputs& inputs, double step_s) {
  std::vector<Gain> gains;
  const auto add = [&](const char* change, auto apply) {
    Inputs changed = inputs;
    apply(changed);
    Gain& gain = gains.emplace_back();
    gain.change = change;
    gain.saved_s = step_s - changed.step_s();
  };
  add("links of twice the rate", [](Inputs& of) { scale_rates(of, 2); });
  add("no latency, and no cost of the host", [](Inputs& of) { scale_host(of, 0); });
  add("one synchronization per step",
      [](Inputs& of) { std::fill(of.options.syncs.begin(), of.options.syncs.end() - 1, false); });
  if (inputs.options.gradient_bytes == models::kFloatBytes) {
    add("gradients of two bytes", [](Inputs& of) { of.options.gradient_bytes = 2; });
  }
  return gains;
}

}  // namespace

Prediction predict_step(const StepModel& model, const Network& network, const StepOptions& options,
                        const Doubt& doubt) {
  const Inputs inputs{model, network, options};
  const Schedule schedule = step_schedule(model, network, options);
  const std::vector<Span> path = schedule.critical_path();
  Prediction prediction;
  prediction.step_s = schedule.end_s();
  prediction.interval90 = interval_of(inputs, doubt, prediction.step_s);
  prediction.exposed_s = schedule.exposed_s();
  prediction.compute_s = prediction.step_s - prediction.exposed_s;
  prediction.path = parts_of(path);
  prediction.limit = limit_of(prediction.path, path, network);
  prediction.gains = gains_of(inputs, prediction.step_s);
  return prediction;
}

}  // namespace gradsync::predict
