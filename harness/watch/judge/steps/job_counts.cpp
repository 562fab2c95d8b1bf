#include "harness/watch/judge/steps/job_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "harness/base/errors.h"
#include "harness/watch/judge/steps/steps.h"
#include "harness/watch/judge/steps/usual_work.h"

namespace gradsync::watch {
namespace {

constexpr int kOutside = -1;

class StepRecord {
 public:
  explicit StepRecord(const Step& step) : step_(step) {
    add_all(step.outside, kOutside);
    add_all(step.in_evaluation, kOutside);
    for (std::size_t i = 0; i < step.micro_batches.size(); ++i) {
      add_all(step.micro_batches[i].in_forward, static_cast<int>(i));
      add_all(step.micro_batches[i].in_backward, static_cast<int>(i));
    }
  }

  std::vector<results::TimelineEvent> events() && { return std::move(events_); }

 private:
  void add_all(const std::vector<const Event*>& collectives, int micro_batch) {
    for (const Event* collective : collectives) {
      results::TimelineEvent event;
      event.op = collective->name;
      event.bytes = collective->bytes;
      event.micro_batch = micro_batch;
      event.start_s = static_cast<double>(collective->start_ns - step_.start_ns) * 1e-9;
      event.end_s = static_cast<double>(collective->end_ns - step_.start_ns) * 1e-9;
      events_.push_back(std::move(event));
    }
  }

  const Step& step_;
  std::vector<results::TimelineEvent> events_;
};

void require_one_optimizer_each(const std::vector<Step>& steps, std::size_t last,
                                const std::string& who) {
  const bool are_single =
      steps.size() > last &&
      std::all_of(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(last) + 1,
                  [](const Step& step) { return step.is_complete && step.optimizers.size() == 1; });
  if (are_single) return;
  throw ConfigError(fmt::format(
      "{}: several optimizers step between two of its backwards: expected a job in which one does, "
      "at whose end it can be held",
      who));
}

}  // namespace

std::vector<results::TimelineEvent> timeline_of(const Step& step) {
  return StepRecord(step).events();
}

Known<std::int64_t> peak_until(const Step& step) {
  if (step.optimizers.empty()) return Unknown{kNotCounted};
  const std::int64_t bytes = step.optimizers.back()->bytes;
  if (bytes < 0) return Unknown{kNotCounted};
  return bytes;
}

Known<std::int64_t> repeatable_peak(const Step& step, const Known<std::int64_t>& peak) {
  const bool has_fsdp = std::ranges::any_of(
      step.micro_batches, [](const MicroBatch& micro_batch) { return is_of_fsdp(micro_batch); });
  if (has_fsdp) return Unknown{"under FSDP two starts of a job may differ in it"};
  return peak;
}

void count_step(const std::vector<RankEvents>& processes, std::size_t step, const std::string& who,
                results::TrialRecord& trial) {
  for (const RankEvents& process : processes) {
    const Steps steps = cut_into_steps(process.events);
    require_one_optimizer_each(steps.steps, step, who);
    const Step& counted = steps.steps[step];
    if (trial.ranks.empty()) {
      for (const auto& [op, sum] : collectives_of(counted)) {
        trial.ledger.per_step[op] = {sum.count, sum.bytes.value_or(-1)};
      }
    }
    results::RankRecord& rank = trial.ranks.emplace_back();
    rank.rank = process.rank;
    rank.timeline_events = timeline_of(counted);
    if (const auto peak = repeatable_peak(counted, peak_until(counted)))
      rank.peak_allocated_bytes = *peak;
  }
}

gate::HeldWork last_counted_work(const std::vector<RankEvents>& processes) {
  std::vector<gate::RankWork> ranks;
  for (const RankEvents& process : processes) {
    auto work = last_counted_work(process, cut_into_steps(process.events));
    if (!work) continue;
    work->ranks = {std::max(process.rank, 0)};  // without a process group it is alone
    ranks.push_back(std::move(*work));
  }
  return {"", gate::grouped(ranks)};
}

std::vector<RankEvents> first_steps(std::vector<RankEvents> processes, std::size_t steps) {
  for (RankEvents& process : processes) {
    const Steps all = cut_into_steps(process.events);
    if (all.steps.size() <= steps) continue;
    const std::int64_t end_ns = all.steps[steps - 1].end_ns;
    if (process.peak.bytes) process.peak.bytes = peak_until(all.steps[steps - 1]);
    process.peak.reserved_bytes.reset();  // it is of all steps
    std::erase_if(process.events, [&](const Event& event) { return event.start_ns > end_ns; });
  }
  return processes;
}

}  // namespace gradsync::watch
