#include "harness/watch/judge/steps/quiet.h"

#include <algorithm>
#include <vector>

namespace gradsync::watch {
namespace {

// By bytes where they are known, else by number.
std::int64_t bytes_in(const OpSums& sums) {
  return total_bytes(sums).value_or(total_count(sums));
}

bool is_smaller(const OpSums& a, const OpSums& b) {
  return bytes_in(a) < bytes_in(b);
}

}  // namespace

Quiet::Quiet(const Steps& steps) : gradient_bytes_(steps.gradient_bytes) {
  for (const Step& step : steps.steps) look_at(step);
  // Models whose micro-batches all synchronized, although the job asked for none: those that were
  // asked for have no more of them, or these are the gradients to the byte.
  std::erase_if(quiet_, [&](const auto& entry) {
    const auto& [models, sums] = entry;
    return is_synchronization(models, sums).value_or(false) &&
           (most_synced_[models] <= total_count(sums) ||
            total_bytes(sums) == gradient_bytes_of(models));
  });
}

const OpSums& Quiet::of(const MicroBatch& micro_batch) const {
  static const OpSums nothing;
  const auto found = quiet_.find(models_of(micro_batch));
  return found == quiet_.end() ? nothing : found->second;
}

std::optional<bool> Quiet::is_synchronization(const Models& models, const OpSums& sums) const {
  const auto bytes = total_bytes(sums);
  const auto gradient_bytes = gradient_bytes_of(models);
  if (!bytes || gradient_bytes.value_or(0) == 0) return std::nullopt;
  return 2 * *bytes >= *gradient_bytes;
}

std::optional<std::int64_t> Quiet::gradient_bytes_of(const Models& models) const {
  std::int64_t gradient_bytes = 0;
  for (const std::int64_t model : models) {
    const auto known = gradient_bytes_.find(model);
    if (known == gradient_bytes_.end()) return std::nullopt;
    gradient_bytes += known->second;
  }
  return gradient_bytes;
}

void Quiet::look_at(const Step& step) {
  std::map<Models, std::vector<OpSums>> by_models;
  for (const MicroBatch& micro_batch : step.micro_batches) {
    if (!is_wrapped(micro_batch)) continue;
    const Models models = models_of(micro_batch);
    const OpSums sums = sums_of(reductions_of(micro_batch));
    if (micro_batch.is_unsynced) {
      offer(models, sums);
    } else {
      std::int64_t& most = most_synced_[models];
      most = std::max(most, total_count(sums));
    }
    if (!is_of_fsdp(micro_batch)) by_models[models].push_back(sums);
  }
  // Where the wrapper's flag was not seen, the sizes decide.
  for (const auto& [models, sums] : by_models) {
    const auto [least, most] = std::minmax_element(sums.begin(), sums.end(), is_smaller);
    if (models.contains(0) && 2 * bytes_in(*least) < bytes_in(*most)) offer(models, *least);
  }
}

void Quiet::offer(const Models& models, const OpSums& sums) {
  const auto [known, is_new] = quiet_.try_emplace(models, sums);
  if (!is_new && is_smaller(sums, known->second)) known->second = sums;
}

bool synchronizes(const MicroBatch& micro_batch, const Quiet& quiet) {
  if (micro_batch.is_by_bytes) return !micro_batch.of_gradients.empty();
  const OpSums sums = sums_of(reductions_of(micro_batch));
  const OpSums& quiet_sums = quiet.of(micro_batch);
  if (total_count(sums) <= total_count(quiet_sums)) return false;
  const Models synced = synced_models_of(micro_batch);
  if (!micro_batch.is_unsynced && synced == models_of(micro_batch)) return true;
  return quiet.is_synchronization(synced, without(sums, quiet_sums)).value_or(true);
}

}  // namespace gradsync::watch
