#include "harness/watch/judge/policies.h"

#include <fmt/format.h>

#include <cstdlib>
#include <set>

#include "harness/base/units.h"

namespace gradsync::watch {
namespace {

constexpr const char* kDoesSoLess = "the job reduces less often by now";

std::set<std::int64_t> models_of(const Step& step) {
  std::set<std::int64_t> models;
  for (const MicroBatch& micro_batch : step.micro_batches)
    models.merge(watch::models_of(micro_batch));
  return models;
}

Known<std::int64_t> held(const Step& step, const RankEvents& rank,
                         std::int64_t HeldGradients::*bytes) {
  std::int64_t sum = 0;
  for (const std::int64_t model : models_of(step)) {
    const auto known = rank.held.find(model);
    if (known == rank.held.end()) return Unknown{"a model's shards are not known"};
    if (known->second.*bytes < 0) return Unknown{"its wrapper has no flag for it"};
    sum += known->second.*bytes;
  }
  return sum;
}

// Where all is reduced at the end.
Policy at_the_end(const Step& step, const RankEvents& rank, const Known<double>& saved_s) {
  Policy policy{When::AllAtTheEnd, held(step, rank, &HeldGradients::whole_bytes), 0, saved_s};
  if (const auto gathered_bytes = held(step, rank, &HeldGradients::gathered_bytes)) {
    policy.parameter_bytes = *gathered_bytes;
    policy.held_bytes = *policy.held_bytes + *gathered_bytes;
  }
  return policy;
}

Known<double> saved_by_each(const StepCounts& step) {
  const ReplicaCounts& replicas = step.replicas;
  const bool is_now =
      step.synchronized == step.micro_batches && replicas.synchronized == replicas.micro_batches;
  return is_now ? Known<double>(0.0) : Unknown{kDoesSoLess};
}

Known<double> saved_by_replicas(const StepCounts& step, const Waits& waits) {
  if (step.synchronized < step.micro_batches) return Unknown{kDoesSoLess};
  return step.replicas.excess.empty() ? Known<double>(0.0) : waits.replicas_excess_s;
}

const char* words_of(When when) {
  return when == When::AllAtTheEnd ? "everything" : "replicas";
}

std::string bytes_more(std::int64_t bytes) {
  if (bytes == 0) return "no more";
  const auto size = static_cast<double>(std::abs(bytes));
  return fmt::format("{} ({} bytes) {}", format_bytes(size), std::abs(bytes),
                     bytes > 0 ? "more" : "less");
}

}  // namespace

std::vector<Policy> policies_of(const StepCounts& step, const RankEvents& rank,
                                const Waits& waits) {
  std::vector<Policy> policies;
  if (!step.has_shards || step.micro_batches < 2) return policies;
  policies.push_back({When::EachMicroBatch, held(*step.step, rank, &HeldGradients::shard_bytes), 0,
                      saved_by_each(step)});
  if (step.replicas.micro_batches > 0) {
    policies.push_back({When::ReplicasAtTheEnd,
                        held(*step.step, rank, &HeldGradients::reduced_bytes), 0,
                        saved_by_replicas(step, waits)});
  }
  policies.push_back(at_the_end(*step.step, rank, waits.excess_s));
  return policies;
}

std::vector<std::string> policy_texts(const std::vector<Policy>& policies) {
  std::vector<std::string> texts;
  for (const Policy& policy : policies) {
    if (policy.when == When::EachMicroBatch || !policy.held_bytes) continue;
    const std::int64_t more_bytes = *policy.held_bytes - *policies.front().held_bytes;
    std::string text = fmt::format("reducing {} once per step needs {} memory for gradients{}",
                                   words_of(policy.when), bytes_more(more_bytes),
                                   policy.parameter_bytes > 0 ? " and parameters" : "");
    if (policy.saved_s && *policy.saved_s > 0) {
      text += fmt::format(", and makes a step {:.3f} s shorter", *policy.saved_s);
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace gradsync::watch
