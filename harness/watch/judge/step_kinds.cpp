#include "harness/watch/judge/step_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "harness/text/labels.h"
#include "harness/watch/judge/steps/usual_step.h"

namespace gradsync::watch {
namespace {

constexpr std::size_t kMostKinds = 3;  // that are told one by one

bool is_between(const Event& event, std::int64_t start_ns, std::int64_t end_ns) {
  return start_ns <= event.start_ns && event.start_ns <= end_ns;
}

int micro_batches_before(const Step& step, const Event& clearing) {
  return static_cast<int>(std::ranges::count_if(step.micro_batches, [&](const MicroBatch& each) {
    return each.backwards.front()->start_ns < clearing.start_ns;
  }));
}

// fully_shard keeps whole gradients that it has not reduced to itself: nothing clears them.
bool is_kept(const MicroBatch& micro_batch) {
  return micro_batch.is_unsynced && is_of_fsdp(micro_batch);
}

// The last call between its micro-batches that cleared gradients that nothing had read; null: there
// is none.
const Event* unread_clearing(const Step& step, const std::vector<Event>& events) {
  const auto last =
      std::find_if(step.clearings.rbegin(), step.clearings.rend(),
                   [](const Event* clearing) { return clearing->kind == EventKind::ZeroGrad; });
  if (last == step.clearings.rend() || std::ranges::any_of(step.micro_batches, is_kept)) {
    return nullptr;
  }
  const std::int64_t begin_ns = step.micro_batches.front().backwards.front()->start_ns;
  const bool is_read = std::ranges::any_of(events, [&](const Event& event) {
    return event.kind == EventKind::GradientUse && is_between(event, begin_ns, (*last)->start_ns);
  });
  return is_read ? nullptr : *last;
}

using KindKey = std::pair<int, int>;  // micro-batches, and those that are cleared

struct Found {
  StepKind kind;
  std::vector<int> places;  // of its steps among all
};

// The distance of steps that are each the last of so many; else 0.
int period_of(const std::vector<int>& places) {
  const int period = places.front() + 1;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i] + 1 != static_cast<int>(i + 1) * period) return 0;
  }
  return places.size() > 1 && period > 1 ? period : 0;
}

std::map<KindKey, Found> kinds_of(const Counted& steps, const std::vector<Event>& events) {
  std::map<KindKey, Found> kinds;
  for (int i = 0; i < std::ssize(steps); ++i) {
    const StepCounts& counts = *steps[static_cast<std::size_t>(i)];
    StepKind kind;
    kind.micro_batches = counts.micro_batches;
    if (const Event* clearing = unread_clearing(*counts.step, events)) {
      kind.cleared = micro_batches_before(*counts.step, *clearing);
      kind.file = clearing->file;
      kind.line = clearing->line;
    }
    Found& found = kinds[{kind.micro_batches, kind.cleared}];
    if (found.places.empty()) found.kind = kind;
    found.places.push_back(i);
  }
  return kinds;
}

std::string text_of(const StepKind& kind) {
  std::string text = fmt::format("{} of {} steps", kind.steps, kind.all);
  if (kind.every > 0) text += fmt::format(", the last of every {},", kind.every);
  text += fmt::format(
      " {} {}", kind.steps == 1 ? "has" : "have",
      text::counted(static_cast<std::size_t>(kind.micro_batches), "micro-batch", "micro-batches"));
  if (kind.cleared == 0) return text;
  const std::string place = place_text(kind.file, kind.line);
  return text + fmt::format(": gradients of the first {} are cleared unread, {}",
                            kind.cleared == 1 ? "one" : std::to_string(kind.cleared),
                            place.empty() ? "by hand" : "zero_grad in " + place);
}

}  // namespace

std::vector<StepKind> other_kinds(const RankEvents& process,
                                  const std::vector<StepCounts>& counts) {
  Counted steps = not_skipped(counts);
  // A trace may begin within a step.
  if (process.is_imported() && !steps.empty()) steps.erase(steps.begin());
  const bool are_clear = std::ranges::all_of(steps, [](const StepCounts* step) {
    return step->micro_batches > 0 && !step->step->is_interleaved;
  });
  if (!are_clear) return {};
  std::vector<StepKind> kinds;
  for (auto& [key, found] : kinds_of(steps, process.events)) {
    found.kind.steps = static_cast<int>(found.places.size());
    found.kind.all = static_cast<int>(steps.size());
    found.kind.every = period_of(found.places);
    kinds.push_back(std::move(found.kind));
  }
  std::ranges::stable_sort(kinds, std::greater(), &StepKind::steps);
  if (!kinds.empty()) kinds.erase(kinds.begin());
  return kinds;
}

std::vector<std::string> step_kind_texts(const std::vector<StepKind>& kinds) {
  std::vector<std::string> texts;
  const std::size_t shown = kinds.size() <= kMostKinds ? kinds.size() : kMostKinds - 1;
  for (std::size_t i = 0; i < shown; ++i) texts.push_back(text_of(kinds[i]));
  if (shown == kinds.size()) return texts;
  int rest = 0;
  for (std::size_t i = shown; i < kinds.size(); ++i) rest += kinds[i].steps;
  texts.push_back(fmt::format("{} of {} steps are of {} other kinds", rest, kinds.front().all,
                              kinds.size() - shown));
  return texts;
}

}  // namespace gradsync::watch
