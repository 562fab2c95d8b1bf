#include "harness/watch/judge/seen_beside.h"

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

// Gathers or exchanges in backward; beside FSDP's own, outside of it.
bool exchanges_activations(const Step& step) {
  const auto brings_back = [](const EventPointers& collectives) {
    return std::ranges::any_of(collectives, [](const Event* collective) {
      return sends_parts(*collective) || is_called_like(*collective, {"gather"});
    });
  };
  return std::ranges::any_of(step.micro_batches, [&](const MicroBatch& micro_batch) {
    return brings_back(is_of_fsdp(micro_batch) ? step.outside : micro_batch.in_backward);
  });
}

// The most that it may be, where a size is not known.
std::int64_t bytes_of(const EventPointers& collectives) {
  std::int64_t sum = 0;
  for (const Event* collective : collectives) {
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

bool exchange_activations(const Steps& steps) {
  return 2 * std::ranges::count_if(steps.steps, exchanges_activations) > std::ssize(steps.steps);
}

namespace {

std::vector<std::string> marked_as_own(const RankEvents& rank) {
  std::vector<std::string> names;
  for (const auto& [number, optimizer] : rank.optimizers) {
    for (const TrackedParameter& parameter : optimizer.parameters) {
      if (parameter.meant == Meant::Own) names.push_back(parameter.name);
    }
  }
  return names;
}

bool has_stepped(const RankEvents& rank) {
  return std::ranges::any_of(rank.events, [](const Event& event) {
    return event.kind == EventKind::OptimizerStep && !has_word(event, "skipped");
  });
}

}  // namespace

account::SeenBeside seen_beside(const std::vector<RankEvents>& processes,
                                const std::vector<StepKind>& kinds) {
  account::SeenBeside beside;
  for (const StepKind& kind : kinds) {
    if (kind.cleared > 0) beside.cleared[kind.cleared] += static_cast<std::size_t>(kind.steps);
  }
  for (const RankEvents* process : training_processes(processes)) {
    beside.own = marked_as_own(*process);
    if (process->rank >= 0 && has_stepped(*process)) beside.stepped.push_back(process->rank);
    const Steps all = cut_into_steps(process->events);
    const std::vector<Step>& steps = all.steps;
    beside.has_activations |= 2 * std::ranges::count_if(steps, has_activations) > std::ssize(steps);
    beside.exchanges_activations |= exchange_activations(all);
    beside.between_bytes = std::max(beside.between_bytes, bytes_of(all.closing));
    for (const Step& step : steps) {
      beside.between_bytes = std::max(beside.between_bytes, bytes_of(step.outside));
    }
  }
  return beside;
}

}  // namespace gradsync::watch
