#include "harness/arms/search_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "harness/base/log.h"
#include "harness/base/units.h"
#include "harness/base/words.h"
#include "harness/coordinate/watched_group.h"
#include "harness/session/interrupt.h"
#include "harness/session/search_outcome.h"
#include "harness/watch/hold/whole_job.h"
#include "harness/watch/inject/environment.h"
#include "harness/watch/judge/examined.h"

namespace gradsync::arms {
namespace {

using results::Status;
using summary::SearchProbe;

// What torch says of memory that is not to be had, in the last line of a job that failed.
constexpr std::array kOutOfMemory = {"OutOfMemoryError", "out of memory", "can't allocate memory",
                                     "MemoryError"};

std::string replaced(std::string word, const std::string& value) {
  const std::string place = kPlaceOfValue;
  for (auto at = word.find(place); at != std::string::npos; at = word.find(place, at)) {
    word.replace(at, place.size(), value);
    at += value.size();
  }
  return word;
}

std::string bytes_text(std::int64_t bytes) {
  return fmt::format("{} ({} bytes)", format_bytes(static_cast<double>(bytes)), bytes);
}

bool ran_out_of_memory(const std::string& failure) {
  return std::ranges::any_of(
      kOutOfMemory, [&](const char* words) { return failure.find(words) != std::string::npos; });
}

// The most that any rank held; or why that is not known.
Known<std::int64_t> most_held(const watch::SeenJob& job) {
  Known<std::int64_t> most = Unknown{watch::why_no_step(job)};
  for (const watch::RankEvents* process : watch::training_processes(job.folder.ranks)) {
    const Known<std::int64_t>& bytes = process->peak.bytes;
    if (!bytes) return bytes;
    if (!most || *bytes > *most) most = bytes;
  }
  return most;
}

class JobEdge {
 public:
  explicit JobEdge(const JobSearch& search) : search_(search) {
    found_.cell = nlohmann::json{{"job", joined_words(search.command)},
                                 {"memory_budget_bytes", search.budget_bytes}};
    found_.from = search.ends.from;
    found_.to = search.ends.to;
  }

  summary::SearchedCell run() {
    const plan::Edge edge =
        plan::find_edge(search_.ends, [this](std::int64_t value) { return probe(value); });
    session::conclude(edge, search_.axis, found_);
    return std::move(found_);
  }

 private:
  plan::Probe probe(std::int64_t value) {
    SearchProbe& probe = found_.probes.emplace_back();
    probe.order = static_cast<int>(found_.probes.size()) - 1;
    probe.value = value;
    judge(start(value), probe);
    log::info(fmt::format("[{}] {} {} | {}{}", probe.order + 1, search_.axis, value,
                          results::to_string(probe.status),
                          probe.reason.empty() ? "" : ": " + probe.reason));
    if (probe.status == Status::Ok) return {plan::ProbeVerdict::Fits, std::nullopt};
    if (probe.status == Status::Oom) return {plan::ProbeVerdict::DoesNotFit, std::nullopt};
    return {};
  }

  watch::SeenJob start(std::int64_t value) const {
    watch::WholeJob job{.command = {},
                        .python = search_.python,
                        .more = watch::own_port(),
                        .log = fmt::format("{}/job_{}.log", search_.directory, value),
                        .steps = search_.steps,
                        .most_bytes = search_.budget_bytes,
                        .step_deadline_s = search_.step_deadline_s};
    for (const std::string& word : search_.command) {
      job.command.push_back(replaced(word, std::to_string(value)));
    }
    return watch::run_whole_job(job, [] {
      if (session::interrupt_flag()) throw coordinate::Interrupted();
    });
  }

  void judge(const watch::SeenJob& job, SearchProbe& probe) const {
    const auto end = [&](Status status, const std::string& reason) {
      probe.status = status;
      probe.reason = reason;
    };
    if (job.too_much_bytes) {
      probe.peak_allocated_bytes = job.too_much_bytes;
      end(Status::Oom, bytes_text(*job.too_much_bytes) + " and more");
    } else if (!job.failure.empty()) {
      const bool is_oom = ran_out_of_memory(job.failure);
      end(is_oom ? Status::Oom : Status::Failed, "the job " + job.failure);
    } else {
      judge_peak(most_held(job), probe, end);
    }
  }

  template <typename End>
  void judge_peak(const Known<std::int64_t>& peak, SearchProbe& probe, const End& end) const {
    if (!peak) return end(Status::Skipped, "what the job holds is not known: " + peak.why_not());
    probe.peak_allocated_bytes = *peak;
    if (*peak > search_.budget_bytes) end(Status::Oom, bytes_text(*peak));
  }

  const JobSearch& search_;
  summary::SearchedCell found_;
};

}  // namespace

void search_job(const JobSearch& search, std::vector<summary::SearchedCell>& found) {
  found.push_back(JobEdge(search).run());
}

}  // namespace gradsync::arms
