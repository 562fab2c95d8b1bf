#include "harness/watch/judge/steps/unwrapped.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <vector>

#include "harness/watch/judge/steps/reductions.h"

namespace gradsync::watch {
namespace {

constexpr std::int64_t kParts = 50;          // a fiftieth of the gradients may be padding
constexpr std::int64_t kLoggedBytes = 4096;  // or so many a loss, a norm, a flag,
constexpr std::int64_t kLoggedParts = 4;     // but no more than a quarter of the gradients
constexpr std::int64_t kForwardParts = 10;   // of activations a tenth comes before backward

bool is_reduction(const Event* collective) {
  return collective->name.find("reduce") != std::string::npos;
}

std::int64_t bytes_of(const EventPointers& collectives) {
  return std::accumulate(collectives.begin(), collectives.end(), std::int64_t{0},
                         [](std::int64_t sum, const Event* each) { return sum + each->bytes; });
}

// All but those of unknown size or of groups that are known for something else.
EventPointers reductions_among(const EventPointers& collectives) {
  EventPointers reductions;
  std::ranges::copy_if(collectives, std::back_inserter(reductions), [](const Event* each) {
    return is_reduction(each) && each->bytes > 0 && may_be_of_gradients(*each);
  });
  return reductions;
}

// What the optimizers of the step read, as far as the hook tells.
std::int64_t read_bytes(const Step& step) {
  std::int64_t sum = 0;
  for (const Event* optimizer : step.optimizers) {
    const std::string_view text = word_value(*optimizer, "gradients").value_or("");
    std::int64_t bytes = 0;
    std::from_chars(text.data(), text.data() + text.size(), bytes);
    sum += bytes;
  }
  return sum;
}

// Groups that reduce before the first backward of most steps at least a tenth of what the gradients
// of one have. The first step does not say it: what comes before its backward is the set-up's.
std::set<std::int64_t> groups_of_forward(const Steps& steps) {
  std::map<std::int64_t, std::size_t> found;
  std::size_t known = 0;
  for (std::size_t i = 1; i < steps.steps.size(); ++i) {
    const Step& step = steps.steps[i];
    if (step.micro_batches.empty()) continue;
    ++known;
    const MicroBatch& first = step.micro_batches.front();
    std::map<std::int64_t, std::int64_t> bytes;
    for (const Event* each : reductions_among(step.outside)) {
      if (each->start_ns < first.backwards.front()->start_ns) bytes[each->object] += each->bytes;
    }
    for (const auto& [group, sum] : bytes) {
      if (kForwardParts * sum >= reached_bytes(first).value_or(0)) ++found[group];
    }
  }
  std::set<std::int64_t> groups;
  for (const auto& [group, count] : found) {
    if (2 * count > known) groups.insert(group);
  }
  return groups;
}

class StepReductions {
 public:
  StepReductions(Step& step, const std::set<std::int64_t>& of_forward)
      : step_(step),
        of_forward_(of_forward),
        outside_(reductions_among(step.outside)),
        read_bytes_(read_bytes(step)) {}

  // Returns whether one was found.
  bool find() {
    bool found = false;
    for (std::size_t i = 0; i < step_.micro_batches.size(); ++i) {
      MicroBatch& micro_batch = step_.micro_batches[i];
      micro_batch.of_gradients = of_gradients(micro_batch, reductions_behind(i));
      found |= !micro_batch.of_gradients.empty();
    }
    return found;
  }

 private:
  EventPointers reductions_behind(std::size_t index) const {
    const std::vector<MicroBatch>& all = step_.micro_batches;
    const std::int64_t begin_ns = all[index].backwards.front()->start_ns;
    const std::int64_t end_ns =
        index + 1 < all.size() ? all[index + 1].backwards.front()->start_ns : step_.end_ns;
    EventPointers behind = reductions_among(all[index].in_backward);
    for (const Event* each : outside_) {
      if (each->start_ns >= begin_ns && each->start_ns < end_ns) behind.push_back(each);
    }
    std::erase_if(behind, [&](const Event* each) { return of_forward_.contains(each->object); });
    return behind;
  }

  // Those of one group, or of all.
  EventPointers of_gradients(const MicroBatch& micro_batch, const EventPointers& behind) const {
    const std::int64_t reached = reached_bytes(micro_batch).value_or(0);
    const auto is_all = [&](const EventPointers& reductions) {
      const std::int64_t bytes = bytes_of(reductions);
      return may_be_gradients(bytes, reached) || may_be_gradients(bytes, read_bytes_);
    };
    std::map<std::int64_t, EventPointers> by_group;
    for (const Event* each : behind) by_group[each->object].push_back(each);
    for (const auto& [group, reductions] : by_group) {
      if (is_all(reductions)) return reductions;
    }
    return is_all(behind) ? behind : EventPointers();
  }

  Step& step_;
  const std::set<std::int64_t>& of_forward_;
  const EventPointers outside_;
  const std::int64_t read_bytes_;
};

bool has_wrapped(const Steps& steps) {
  return std::ranges::any_of(steps.steps, [](const Step& step) {
    return std::ranges::any_of(step.micro_batches, is_wrapped);
  });
}

// Whether as many bytes as a step's gradients have were broadcast before the first step.
bool begins_equal(const Steps& steps) {
  EventPointers broadcasts;
  std::ranges::copy_if(steps.set_up, std::back_inserter(broadcasts), [](const Event* each) {
    return each->bytes > 0 && each->name.find("broadcast") != std::string::npos;
  });
  const std::int64_t bytes = bytes_of(broadcasts);
  return std::ranges::any_of(steps.steps, [&](const Step& step) {
    return std::ranges::any_of(step.micro_batches, [&](const MicroBatch& micro_batch) {
      return may_be_gradients(bytes, reached_bytes(micro_batch).value_or(0));
    });
  });
}

}  // namespace

void find_reductions(Steps& steps) {
  if (has_wrapped(steps)) return;
  const std::set<std::int64_t> of_forward = groups_of_forward(steps);
  bool are_told = begins_equal(steps);
  for (Step& step : steps.steps) {
    if (!step.micro_batches.empty() && step.is_complete) {
      are_told |= StepReductions(step, of_forward).find();
    }
  }
  if (!are_told) return;
  for (Step& step : steps.steps) {
    for (MicroBatch& micro_batch : step.micro_batches) micro_batch.is_by_bytes = true;
  }
}

std::optional<std::int64_t> reached_bytes(const MicroBatch& micro_batch) {
  if (micro_batch.backwards.size() != 1 || micro_batch.backwards.front()->bytes <= 0) {
    return std::nullopt;
  }
  return micro_batch.backwards.front()->bytes;
}

bool may_be_gradients(std::int64_t reduced_bytes, std::int64_t gradient_bytes) {
  if (gradient_bytes <= 0) return false;
  const auto is = [&](std::int64_t bytes) {
    const std::int64_t more =
        std::max(bytes / kParts, std::min(kLoggedBytes, bytes / kLoggedParts));
    return bytes - bytes / kParts <= reduced_bytes && reduced_bytes <= bytes + more;
  };
  return is(gradient_bytes / 2) || is(gradient_bytes) || is(2 * gradient_bytes);
}

bool adds_to_gradients(const MicroBatch& micro_batch) {
  const Event& backward = *micro_batch.backwards.front();
  return backward.bytes > 0 && backward.added_bytes == backward.bytes;
}

bool finds_no_gradients(const MicroBatch& micro_batch) {
  const Event& backward = *micro_batch.backwards.front();
  return backward.bytes > 0 && backward.added_bytes == 0;
}

}  // namespace gradsync::watch
