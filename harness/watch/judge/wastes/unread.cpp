#include "harness/watch/judge/wastes/unread.h"

#include <algorithm>
#include <map>
#include <string>

#include "harness/watch/judge/examined.h"
#include "harness/watch/judge/steps/nesting.h"
#include "harness/watch/judge/steps/reductions.h"
#include "harness/watch/judge/wastes/waste_words.h"

namespace gradsync::watch {
namespace {

constexpr int kSeveral = 2;

bool is_of(const Event& event, std::int64_t model) {
  return has_word(event, "of=" + std::to_string(model));
}

// What first happens to the model's gradients behind a backward: an optimizer's step or a clearing
// of them, or a read of any. null: nothing is known.
const Event* fate_of(const std::vector<Event>& events, std::int64_t model, const Event& backward) {
  const auto behind = std::ranges::lower_bound(events, backward.end_ns, {},
                                               [](const Event& e) { return e.start_ns; });
  const auto found = std::find_if(behind, events.end(), [&](const Event& event) {
    if (event.kind == EventKind::GradientUse) return event.detail == kRead;
    const bool is_fate =
        event.kind == EventKind::OptimizerStep || event.kind == EventKind::ZeroGrad;
    return is_fate && is_of(event, model);
  });
  return found == events.end() ? nullptr : &*found;
}

// The clearing before which nothing reads what the micro-batch reduced of the model; else null.
const Event* cleared_unread(const Examined& rank, const Step& step, const MicroBatch& micro_batch,
                            std::int64_t model) {
  const Event& backward = *micro_batch.backwards.back();
  const bool is_in_closure = std::ranges::any_of(
      step.optimizers, [&](const Event* optimizer) { return contains(*optimizer, backward); });
  const Event* fate = is_in_closure ? nullptr : fate_of(rank.events->events, model, backward);
  return fate != nullptr && fate->kind == EventKind::ZeroGrad ? fate : nullptr;
}

const Event* forward_of(const MicroBatch& micro_batch, std::int64_t model) {
  const auto found = std::ranges::find(micro_batch.forwards, model,
                                       [](const Event* forward) { return forward->object; });
  return found == micro_batch.forwards.end() ? nullptr : *found;
}

// What one micro-batch reduces of each model, several of which it runs, for nothing.
void add_unread(const Examined& rank, const Step& step, const MicroBatch& micro_batch,
                std::map<std::int64_t, UnreadGradients>& found) {
  const auto reduced = total_bytes(sums_of(reductions_of(micro_batch)));
  const Models models = synced_models_of(micro_batch);
  if (models.size() < 2 || is_of_fsdp(micro_batch) || !reduced) return;
  for (const std::int64_t model : models) {
    const auto bytes = rank.steps.gradient_bytes.find(model);
    const Event* forward = forward_of(micro_batch, model);
    if (bytes == rank.steps.gradient_bytes.end() || bytes->second > *reduced || !forward) continue;
    const Event* clearing = cleared_unread(rank, step, micro_batch, model);
    if (clearing == nullptr) continue;
    UnreadGradients& unread = found[model];
    ++unread.times;
    unread.bytes = bytes->second;
    unread.of_bytes = *reduced;
    unread.forward = forward;
    unread.clearing = clearing;
  }
}

}  // namespace

std::optional<Waste> unread_gradients(const Examined& rank) {
  std::map<std::int64_t, UnreadGradients> found;
  for (const Step& step : rank.steps.steps) {
    if (step.is_skipped) continue;
    for (const MicroBatch& micro_batch : step.micro_batches) {
      add_unread(rank, step, micro_batch, found);
    }
  }
  std::erase_if(found, [](const auto& entry) { return entry.second.times < kSeveral; });
  const auto most =
      std::ranges::max_element(found, {}, [](const auto& entry) { return entry.second.bytes; });
  if (most == found.end()) return std::nullopt;
  return unread_in_words(most->second);
}

}  // namespace gradsync::watch
