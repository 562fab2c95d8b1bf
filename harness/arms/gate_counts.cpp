#include "harness/arms/gate_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "harness/arms/job_arms.h"
#include "harness/base/errors.h"
#include "harness/base/log.h"
#include "harness/base/words.h"
#include "harness/coordinate/watched_group.h"
#include "harness/results/store.h"
#include "harness/session/interrupt.h"
#include "harness/watch/inject/environment.h"
#include "harness/watch/inject/preload/operator_work.h"
#include "harness/watch/judge/examined.h"
#include "harness/watch/judge/steps/job_counts.h"

namespace gradsync::arms {
namespace {

using gate::CountDifference;

constexpr const char* kCountsPlan = "counts";

// Returns whether the difference may be chance in a job whose steps vary. A difference in how often
// it synchronizes is not chance.
bool may_be_chance(const CountDifference& difference) {
  static const std::set<std::string> kinds{"events", "collectives", gate::kPeakDifference,
                                           gate::kWorkDifference};
  return kinds.contains(difference.what);
}

// A port that the user sets is kept: peers on other hosts may wait there.
watch::EnvironmentChanges port_if_none() {
  return std::getenv("MASTER_PORT") == nullptr ? watch::own_port() : watch::EnvironmentChanges{};
}

gate::RowCounts row_counts(const gate::HeldCounts& held, const CountedJob& counted,
                           std::vector<std::string>& notes) {
  gate::HeldDifferences found = gate::held_differences(held, counted.counts);
  notes = std::move(found.notes);
  gate::RowCounts row{std::move(found.differences), "", ""};
  if (!counted.unsteady.empty()) {
    std::erase_if(row.differences, may_be_chance);
    row.unfit_because = counted.unsteady + ": seed the job, and pad what it exchanges";
  }
  const std::string words = watch::verdict_sentence(counted.watched.verdicts.front());
  if (!row.differences.empty()) {
    row.differences.insert(row.differences.begin(), {"verdict", "the job " + words});
  } else if (watch::has_excess(counted.watched)) {
    notes.push_back("as in the file, the job " + words);
  }
  return row;
}

// The gate may include nothing of the watcher, and ranks its findings by this name.
static_assert(std::string_view(gate::kCopyPrefix) == watch::kCopyPrefix);

// How many steps of a job are counted, after the first: enough to know the usual one. Later ones
// take no longer than without.
constexpr int kWorkSteps = 100;

enum class Start { First, Second };

watch::SeenJob start_of(const GateQuestion& question, const std::string& directory, Start start) {
  const GateOptions& options = question.options;
  watch::EnvironmentChanges more = port_if_none();
  more.emplace_back(watch::kWorkVariable, std::to_string(kWorkSteps));
  if (start == Start::Second) more.emplace_back(watch::kWorkLinesVariable, "1");
  return watch::run_whole_job({.command = options.job,
                               .python = options.python,
                               .on = options.on,
                               .more = std::move(more),
                               .log = directory + "/" + results::kJobOutput,
                               .shows_output = start == Start::First && !options.run.quiet,
                               .budget_s = question.time_budget_s},
                              [] {
                                if (session::interrupt_flag()) throw coordinate::Interrupted();
                              });
}

// How far a budget lets a job come is chance, and so is what it held by then.
void forget_unended_peaks(watch::SeenJob& job) {
  if (!job.was_ended) return;
  for (watch::RankEvents& process : job.folder.ranks) {
    process.peak.bytes = Unknown{"the job was ended by --time-budget"};
  }
}

watch::UsualCounts usual_counts(const watch::SeenJob& job) {
  watch::UsualCounts usual = watch::usual_counts(job.folder.ranks);
  if (usual.counts.work) usual.counts.work->torch = job.torch;
  return usual;
}

void count(CountedJob& counted, const std::string& on) {
  watch::UsualCounts usual = usual_counts(counted.job);
  counted.watched = watch::summarize(counted.job.folder.ranks);
  counted.counts = std::move(usual.counts);
  counted.counts.gpus_of_paper = on;
  counted.unsteady = std::move(usual.unsteady);
}

// By rank.
std::map<int, Known<std::int64_t>> peaks_of(const watch::SeenJob& job) {
  std::map<int, Known<std::int64_t>> peaks;
  for (const watch::RankEvents* process : watch::training_processes(job.folder.ranks)) {
    peaks[process->rank] = process->peak.bytes;
  }
  return peaks;
}

// What of a peak is left, with what a second start says.
Known<std::int64_t> confirmed(const Known<std::int64_t>& first, const Known<std::int64_t>& second) {
  if (!first || first == second) return first;
  if (!second) {
    const std::string& why = second.why_not();
    return Unknown{"a second start does not say it" + (why.empty() ? why : ": " + why)};
  }
  return Unknown{
      fmt::format("it is chance: {} bytes in one start, {} in the next", *first, *second)};
}

}  // namespace

CountedJob count_job(const GateQuestion& question, const std::string& directory) {
  CountedJob counted;
  counted.job = start_of(question, directory, Start::First);
  forget_unended_peaks(counted.job);
  count(counted, question.options.on);
  if (counted.counts.ranks.empty() && counted.job.failure.empty()) {
    throw EnvironmentError(
        fmt::format("the job {}without an optimizer step that could be seen: {}",
                    counted.job.was_ended ? "was ended by --time-budget " : "ended ",
                    watch::why_no_step(counted.job)),
        "`gradsync watch -- COMMAND` says more");
  }
  return counted;
}

bool wants_second_start(const gate::HeldCounts& held, const CountedJob& counted) {
  const auto differences = gate::held_differences(held, counted.counts).differences;
  const auto is_work = [](const CountDifference& difference) {
    return difference.what == gate::kWorkDifference;
  };
  return std::ranges::any_of(differences, is_work) ||
         (differences.size() == 1 && differences.front().what == gate::kPeakDifference);
}

void start_again(const GateQuestion& question, const std::string& directory, CountedJob& counted) {
  log::info("the job is started once more: what of its peak of memory and its work is chance?");
  watch::SeenJob again = start_of(question, directory, Start::Second);
  forget_unended_peaks(again);
  std::map<int, Known<std::int64_t>> second = peaks_of(again);
  for (watch::RankEvents& process : counted.job.folder.ranks) {
    process.peak.bytes = confirmed(process.peak.bytes, second[process.rank]);
  }
  count(counted, question.options.on);
  std::optional<gate::HeldWork>& work = counted.counts.work;
  const auto work_again = usual_counts(again).counts.work;
  if (work && work_again) work = gate::common_work(*work, *work_again);
}

gate::HeldPage held_page(const GateQuestion& question, const gate::HeldCounts& held,
                         const CountedJob& counted) {
  gate::HeldPage page;
  page.file = question.options.counts;
  page.command = joined_words(question.options.job);
  page.held = held;
  page.seen = counted.counts;
  page.report.plan = kCountsPlan;
  page.report.baseline.name = page.file;
  page.report.candidate = side_of_job(page.command, counted.job.torch, &counted.watched);
  gate::RowReport row;
  row.row.cell = results::Parameters::of_a_job();
  row.counts = row_counts(held, counted, page.report.notes);
  row.no_times_because = "a file of counts has none";
  page.report.rows = {std::move(row)};
  if (!counted.job.failure.empty()) page.report.notes.push_back("the job " + counted.job.failure);
  for (const std::string& fault : counted.watched.faults) page.report.notes.push_back(fault);
  return page;
}

}  // namespace gradsync::arms
