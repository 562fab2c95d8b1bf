#include "harness/watch/judge/steps/reductions.h"

#include <algorithm>
#include <iterator>

#include "harness/watch/judge/steps/unwrapped.h"

namespace gradsync::watch {
namespace {

bool is_broadcast(const Event* collective) {
  return collective->name.find("broadcast") != std::string::npos;
}

bool is_known_for_something_else(GroupRole role) {
  return role == GroupRole::Tensor || role == GroupRole::Context || role == GroupRole::Expert ||
         role == GroupRole::Pipeline;
}

// FSDP goes through a group of one as well where it has no shards or no replicas.
bool moves_nothing(const Event* collective, bool fsdp) {
  return !fsdp && collective->is_apart;
}

}  // namespace

bool is_wrapped(const MicroBatch& micro_batch) {
  return !micro_batch.forwards.empty();
}

bool has_known_reductions(const MicroBatch& micro_batch) {
  return is_wrapped(micro_batch) || micro_batch.is_by_bytes;
}

bool may_be_of_gradients(const Event& collective) {
  return !is_known_for_something_else(collective.role) && !moves_nothing(&collective, false);
}

Models models_of(const MicroBatch& micro_batch) {
  Models models;
  if (micro_batch.is_by_bytes) models.insert(-1 - reached_bytes(micro_batch).value_or(0));
  for (const Event* forward : micro_batch.forwards) models.insert(forward->object);
  for (const Event* forward : micro_batch.inner_forwards) models.insert(forward->object);
  return models;
}

Models synced_models_of(const MicroBatch& micro_batch) {
  Models synced;
  for (const auto* forwards : {&micro_batch.forwards, &micro_batch.inner_forwards}) {
    for (const Event* forward : *forwards) {
      if (!has_word(*forward, "no_sync")) synced.insert(forward->object);
    }
  }
  return synced.empty() ? models_of(micro_batch) : synced;
}

bool share_a_model(const Models& a, const Models& b) {
  return std::any_of(a.begin(), a.end(), [&](std::int64_t model) { return b.contains(model); });
}

EventPointers reductions_of(const MicroBatch& micro_batch) {
  if (micro_batch.is_by_bytes) return micro_batch.of_gradients;
  EventPointers reductions;
  const bool fsdp = is_of_fsdp(micro_batch);
  for (const Event* collective : micro_batch.in_backward) {
    const bool gathers = collective->name.find("all_gather") != std::string::npos;
    if (fsdp && (gathers || is_broadcast(collective))) continue;
    if (moves_nothing(collective, fsdp)) continue;
    if (!is_known_for_something_else(collective->role)) reductions.push_back(collective);
  }
  return reductions;
}

EventPointers reductions_of(const MicroBatch& micro_batch, Among among) {
  EventPointers reductions = reductions_of(micro_batch);
  std::erase_if(reductions, [&](const Event* reduction) {
    return (reduction->role == GroupRole::Replicate) != (among == Among::Replicas);
  });
  return reductions;
}

EventPointers broadcasts_of(const MicroBatch& micro_batch) {
  EventPointers broadcasts;
  std::copy_if(micro_batch.in_forward.begin(), micro_batch.in_forward.end(),
               std::back_inserter(broadcasts), is_broadcast);
  return broadcasts;
}

OpSums sums_of(const EventPointers& collectives) {
  OpSums sums;
  for (const Event* collective : collectives) add(sums, *collective);
  return sums;
}

}  // namespace gradsync::watch
