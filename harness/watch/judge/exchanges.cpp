#include "harness/watch/judge/exchanges.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "harness/watch/judge/steps/reductions.h"
#include "harness/watch/judge/steps/steps.h"

namespace gradsync::watch {
namespace {

using Names = std::vector<std::string_view>;

bool is_called_like(const Event& collective, const Names& names) {
  return std::ranges::any_of(names, [&](std::string_view name) {
    return collective.name.find(name) != std::string::npos;
  });
}

// Neither DDP's buffers nor FSDP's parameters.
bool exchanges_in_forward(const MicroBatch& micro_batch) {
  const Names own = is_of_fsdp(micro_batch) ? Names{"broadcast", "all_gather"} : Names{"broadcast"};
  return std::ranges::any_of(micro_batch.in_forward, [&](const Event* collective) {
    return !collective->is_apart && !is_called_like(*collective, own);
  });
}

bool send_parts(const EventPointers& collectives) {
  return std::ranges::any_of(collectives,
                             [](const Event* collective) { return sends_parts(*collective); });
}

bool has_activations(const Step& step) {
  return send_parts(step.outside) ||
         std::ranges::any_of(step.micro_batches, [](const MicroBatch& micro_batch) {
           return exchanges_in_forward(micro_batch) || send_parts(micro_batch.in_forward) ||
                  send_parts(micro_batch.in_backward);
         });
}

// The most that it may be, where a size is not known.
std::int64_t bytes_between(const Step& step) {
  std::int64_t sum = 0;
  for (const Event* collective : step.outside) {
    if (collective->is_apart) continue;
    if (collective->bytes < 0) return std::numeric_limits<std::int64_t>::max();
    sum += collective->bytes;
  }
  return sum;
}

}  // namespace

bool sends_parts(const Event& collective) {
  return is_called_like(collective, {"all_to_all", "alltoall", "send", "recv"});
}

account::OtherExchanges exchanges_of(const std::vector<RankEvents>& processes) {
  account::OtherExchanges others;
  for (const RankEvents* process : training_processes(processes)) {
    const std::vector<Step> steps = cut_into_steps(process->events).steps;
    others.has_activations |= 2 * std::ranges::count_if(steps, has_activations) > std::ssize(steps);
    for (const Step& step : steps) {
      others.between_bytes = std::max(others.between_bytes, bytes_between(step));
    }
  }
  return others;
}

}  // namespace gradsync::watch
