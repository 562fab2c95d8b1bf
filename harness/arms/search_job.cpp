#include "harness/arms/search_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "harness/base/log.h"
#include "harness/base/units.h"
#include "harness/base/words.h"
#include "harness/coordinate/watched_group.h"
#include "harness/paper/words.h"
#include "harness/session/interrupt.h"
#include "harness/session/search_outcome.h"
#include "harness/watch/hold/whole_job.h"
#include "harness/watch/inject/environment.h"
#include "harness/watch/judge/examined.h"

namespace gradsync::arms {
namespace {

using results::Status;
using summary::SearchProbe;

// Torch writes one of these where a job runs out of memory.
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

bool tells_of_memory(const std::string& line) {
  return std::ranges::any_of(
      kOutOfMemory, [&](const char* words) { return line.find(words) != std::string::npos; });
}

// Returns the last line of a job's output that tells of memory, and "" without one: a launcher goes
// on to say that one of its processes failed.
std::string line_of_memory(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string found;
  for (std::string line; std::getline(file, line);) {
    if (tells_of_memory(line)) found = line;
  }
  return found;
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

// What tells this search from others of the same axis.
results::Parameters cell_of(const JobSearch& search) {
  results::Parameters cell(nlohmann::json{{"job", joined_words(search.command)}});
  if (search.budget_bytes) cell = cell.with("memory_budget_bytes", *search.budget_bytes);
  if (!search.on.empty()) cell = cell.with(paper::kGpusField, search.on);
  return cell;
}

class JobEdge {
 public:
  explicit JobEdge(const JobSearch& search) : search_(search) {
    found_.cell = cell_of(search);
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
    const std::string log = fmt::format("{}/job_{}.log", search_.directory, value);
    std::error_code ignored;
    std::filesystem::remove(log, ignored);  // an earlier search's, which may tell of memory
    judge(start(value, log), log, probe);
    log::info(fmt::format("[{}] {} {} | {}{}", probe.order + 1, search_.axis, value,
                          results::to_string(probe.status),
                          probe.reason.empty() ? "" : ": " + probe.reason));
    if (probe.status == Status::Ok) return {plan::ProbeVerdict::Fits, std::nullopt};
    if (probe.status == Status::Oom) return {plan::ProbeVerdict::DoesNotFit, std::nullopt};
    return {};
  }

  watch::SeenJob start(std::int64_t value, const std::string& log) const {
    watch::WholeJob job{.command = {},
                        .python = search_.python,
                        .on = search_.on,
                        .more = watch::own_port(),
                        .log = log,
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

  void judge(const watch::SeenJob& job, const std::string& log, SearchProbe& probe) const {
    const auto end = [&](Status status, const std::string& reason) {
      probe.status = status;
      probe.reason = reason;
    };
    if (job.too_much_bytes) {
      probe.peak_allocated_bytes = job.too_much_bytes;
      end(Status::Oom, bytes_text(*job.too_much_bytes) + " and more");
    } else if (!job.failure.empty()) {
      judge_failure(job, log, end);
    } else {
      judge_peak(most_held(job), probe, end);
    }
  }

  template <typename End>
  void judge_failure(const watch::SeenJob& job, const std::string& log, const End& end) const {
    if (tells_of_memory(job.failure)) return end(Status::Oom, "the job " + job.failure);
    const std::string line = line_of_memory(log);
    if (line.empty()) return end(Status::Failed, "the job " + job.failure);
    end(Status::Oom, fmt::format("the job made {} steps, then: {} ({})", job.steps, line, log));
  }

  template <typename End>
  void judge_peak(const Known<std::int64_t>& peak, SearchProbe& probe, const End& end) const {
    if (!peak) return end(Status::Skipped, "what the job holds is not known: " + peak.why_not());
    probe.peak_allocated_bytes = *peak;
    if (search_.budget_bytes && *peak > *search_.budget_bytes) end(Status::Oom, bytes_text(*peak));
  }

  const JobSearch& search_;
  summary::SearchedCell found_;
};

}  // namespace

void search_job(const JobSearch& search, std::vector<summary::SearchedCell>& found) {
  found.push_back(JobEdge(search).run());
}

}  // namespace gradsync::arms
