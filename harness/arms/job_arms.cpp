#include "harness/arms/job_arms.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>

#include "harness/base/build_info.h"
#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "harness/base/fields.h"
#include "harness/base/log.h"
#include "harness/base/words.h"
#include "harness/coordinate/watched_group.h"
#include "harness/results/store.h"
#include "harness/watch/inject/environment.h"
#include "harness/watch/inject/preload/operator_work.h"
#include "harness/watch/judge/steps/job_counts.h"
#include "harness/watch/read/read_events.h"

namespace gradsync::arms {
namespace {

using gate::Arm;
using results::Status;
using results::TrialRecord;

// DDP arranges its buckets in the second step; the third is as all that follow.
constexpr int kWarmupSteps = 3;
constexpr double kLookForFaultsS = 1;

// Returns the time of the slowest process for each of the last `count` steps; fewer steps if the
// first one is among them, because its beginning was not seen.
std::vector<double> slowest(const watch::TakenBlock& block, std::size_t skipped_at_end,
                            std::size_t count) {
  std::vector<double> slowest_s;
  for (const watch::TakenSteps& process : block.processes) {
    const std::size_t end = process.step_s.size() - skipped_at_end;
    const std::size_t begin = end - std::min(end, count);
    slowest_s.resize(end - begin);
    for (std::size_t i = begin; i < end; ++i) {
      slowest_s[i - begin] = std::max(slowest_s[i - begin], process.step_s[i]);
    }
  }
  return slowest_s;
}

// How long the last `count` steps took in the process that took longest. Steps touch.
double elapsed_s(const watch::TakenBlock& block, std::size_t count) {
  double longest_s = 0;
  for (const watch::TakenSteps& process : block.processes) {
    const auto timed = static_cast<std::ptrdiff_t>(std::min(count, process.step_s.size()));
    longest_s = std::max(longest_s,
                         std::accumulate(process.step_s.end() - timed, process.step_s.end(), 0.0));
  }
  return longest_s;
}

// Returns the events of the block's processes in the steps that are completely written. The Python
// hook writes a step's lines when its optimizer is done, which is after a process is held there.
std::vector<watch::RankEvents> events_of(const std::string& folder, const watch::TakenBlock& block,
                                         std::int64_t ended) {
  std::set<std::int64_t> pids;
  for (const watch::TakenSteps& process : block.processes) pids.insert(process.pid);
  std::vector<watch::RankEvents> processes = watch::read_folder(folder).ranks;
  std::erase_if(processes, [&](const auto& process) { return !pids.contains(process.pid); });
  return watch::first_steps(std::move(processes), static_cast<std::size_t>(ended - 1));
}

// ": it uses X, but the watcher was built for Y", or nothing.
std::string faults_in(const std::string& folder) {
  const std::vector<std::string> faults = watch::faults_so_far(folder);
  const std::set<std::string> distinct(faults.begin(), faults.end());
  return distinct.empty() ? "" : fmt::format(": {}", fmt::join(distinct, "; "));
}

// "NAME=VALUE": before a command a shell takes it for a variable.
bool is_assignment(const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  const bool is_name = std::all_of(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
  return is_name && !name.empty() && name.size() < word.size() &&
         std::isdigit(static_cast<unsigned char>(name.front())) == 0;
}

JobCommand read_command(const std::string& option, const std::string& text,
                        const GateOptions& options, const std::string& directory) {
  JobCommand command;
  command.text = text;
  try {
    command.words = split_words(text);
  } catch (const std::invalid_argument& error) {
    throw ConfigError(fmt::format("{}: got {}, expected {}", option, text, error.what()));
  }
  if (command.words.empty()) throw ConfigError(option + ": got no command");
  if (is_assignment(command.words.front())) command.words.insert(command.words.begin(), "env");
  command.torch = watch::find_job_torch(command.words, options.python);
  command.library = watch::library_for(command.torch, directory);
  return command;
}

// Work is counted up to the end of the warm-up: the steps behind it take no longer than without.
watch::EnvironmentChanges variables_for(CountedWork counted) {
  watch::EnvironmentChanges changes;
  if (counted == CountedWork::None) return changes;
  changes.emplace_back(watch::kWorkVariable, std::to_string(kWarmupSteps - 1));  // not the first
  if (counted == CountedWork::OperatorsAndLines) {
    changes.emplace_back(watch::kWorkLinesVariable, "1");
  }
  return changes;
}

// What is known of a training command, beside its words.
struct JobContext {
  std::string gradsync;  // this program's version
  std::string commit;
  std::string torch;  // of the command
  std::optional<int> world_size;
  std::optional<std::string> verdict;  // on what it synchronizes
};

constexpr auto fields_of(const JobContext*) {
  return std::tuple{GRADSYNC_FIELDS(JobContext, gradsync, commit, torch),
                    GRADSYNC_SPARED_FIELDS(JobContext, world_size, verdict)};
}

}  // namespace

JobArms::JobArms(const GateOptions& options, const std::string& directory,
                 const std::atomic<bool>* interrupted)
    : interrupted_(interrupted) {
  of(Arm::Baseline).command = read_command("--baseline", options.baseline, options, directory);
  of(Arm::Candidate).command = read_command("--candidate", options.candidate, options, directory);
  of(Arm::Control).command = of(Arm::Baseline).command;
  of(Arm::Baseline).log = directory + "/" + results::kBaselineOutput;
  of(Arm::Candidate).log = directory + "/" + results::kCandidateOutput;
  of(Arm::Control).log = directory + "/" + results::kControlOutput;
}

GateRow JobArms::row() {
  return {.row = {.part = "", .cell = results::Parameters::of_a_job()},
          .warmup_steps = kWarmupSteps,
          .peaks = gate::Peaks::WhereSteady};
}

void JobArms::open(Arm arm) {
  Job& job = of(arm);
  job.folder = std::make_unique<watch::EventFolder>("");
  watch::EnvironmentChanges environment =
      watch::watching(job.command.torch, job.command.library, job.folder->path());
  for (auto& change : watch::own_port()) environment.push_back(std::move(change));
  for (auto& change : variables_for(counted_work_)) environment.push_back(std::move(change));
  const auto poll = [this, arm] {
    if (interrupted_ != nullptr && interrupted_->load()) throw coordinate::Interrupted();
    tell_faults(arm);
  };
  job.held = std::make_unique<watch::HeldJob>(
      watch::JobStart{job.command.words, environment, job.folder->path(), job.log},
      watch::JobDeadlines{}, poll);
}

// Until a job was seen to step; later, a look would be in the way of what is timed.
void JobArms::tell_faults(Arm arm) {
  Job& job = of(arm);
  const std::int64_t now_ns = steady_clock().now_ns();
  if (job.watched || now_ns < job.next_look_ns) return;
  job.next_look_ns = now_ns + nanoseconds(kLookForFaultsS);
  for (const std::string& fault : watch::faults_so_far(job.folder->path())) {
    if (!job.told.insert(fault).second) continue;
    log::warn(fmt::format("the {}: {}", gate::to_string(arm), fault));
  }
}

Block JobArms::run(Arm arm, const GateRow& row, int warmup_steps, int steps) {
  Job& job = of(arm);
  Block result;
  TrialRecord& record = result.trial;
  record.part = row.row.part;
  record.cell = row.row.cell;
  const bool is_first = !job.held;
  if (is_first) open(arm);
  const watch::TakenBlock block = job.held->run(warmup_steps + steps);
  if (!block.failure.empty()) {
    fail(arm, block, record);
    return result;
  }
  const auto timed = static_cast<std::size_t>(steps);
  result.elapsed_s = elapsed_s(block, timed);
  result.phase_s = mean_phases(block.processes, timed);
  record.step_s = slowest(block, 0, timed);
  record.warmup_step_s = slowest(block, timed, static_cast<std::size_t>(warmup_steps));
  if (is_first) count(arm, block, warmup_steps, record);
  return result;
}

void JobArms::count(Arm arm, const watch::TakenBlock& block, int warmup_steps,
                    TrialRecord& record) {
  Job& job = of(arm);
  const auto events = events_of(job.folder->path(), block, job.held->ended());
  // Nothing counted on both sides would agree.
  if (events.size() != block.processes.size()) {
    throw EnvironmentError(
        fmt::format("the {}: {} of {} processes left what they communicate in {}",
                    gate::to_string(arm), events.size(), block.processes.size(),
                    job.folder->path()),
        "make room there, or set TMPDIR to a folder that has some");
  }
  if (!job.watched) {
    job.watched = watch::summarize(events);
    require_as_many_ranks(arm);
  }
  watch::count_step(events, static_cast<std::size_t>(warmup_steps - 1),
                    "the " + gate::to_string(arm), record);
  if (counted_work_ != CountedWork::None) add_work(arm, watch::last_counted_work(events));
}

void JobArms::add_work(Arm arm, gate::HeldWork work) {
  Job& job = of(arm == Arm::Control ? Arm::Baseline : arm);
  work.torch = job.command.torch.version;
  job.work = job.work ? gate::common_work(*job.work, work) : std::move(work);
}

void JobArms::require_as_many_ranks(Arm arm) const {
  const auto& expected = of(Arm::Baseline).watched;
  const auto& got = of(arm).watched;
  if (!expected || expected->world_size == got->world_size) return;
  const std::string who = arm == Arm::Candidate ? "--candidate" : "the " + gate::to_string(arm);
  throw ConfigError(fmt::format("{}: got a job of {} ranks, expected {} as the baseline's", who,
                                got->world_size, expected->world_size));
}

void JobArms::fail(Arm arm, const watch::TakenBlock& block, TrialRecord& record) {
  Job& job = of(arm);
  const std::string who = "the " + gate::to_string(arm);
  const bool is_known = job.watched || (arm == Arm::Control && of(Arm::Baseline).watched);
  const bool stepped = job.held->ended() > 0 || is_known;
  job.held.reset();
  if (!stepped && block.ended_well) {
    throw EnvironmentError(fmt::format("{} ended without an optimizer step that could be seen{}",
                                       who, faults_in(job.folder->path())),
                           "`gradsync watch -- COMMAND` says why");
  }
  if (!stepped) {
    throw ConfigError(fmt::format("{} {}{}", who, block.failure, faults_in(job.folder->path())));
  }
  record.status = block.ended_well ? Status::Skipped : Status::Failed;
  record.reason = block.failure;
  if (block.ended_well && over_early_.empty()) {
    over_early_ = fmt::format("{} {}", who, block.failure);
  }
}

void JobArms::close() {
  for (Job& job : jobs_) {
    job.held.reset();
    job.folder.reset();
  }
}

gate::Side JobArms::side(Arm arm) const {
  const Job& job = of(arm);
  return side_of_job(job.command.text, job.command.torch.version,
                     job.watched ? &*job.watched : nullptr);
}

bool JobArms::same_command() const {
  return of(Arm::Baseline).command.words == of(Arm::Candidate).command.words;
}

const std::optional<watch::Watched>& JobArms::watched(Arm arm) const {
  return of(arm).watched;
}

const std::optional<gate::HeldWork>& JobArms::work(Arm arm) const {
  return of(arm).work;
}

gate::Side side_of_job(const std::string& command, const std::string& torch,
                       const watch::Watched* watched) {
  JobContext context{build_info().version, build_info().commit, torch, {}, {}};
  if (watched != nullptr) {
    context.world_size = std::max(watched->world_size, 1);  // without a process group it is alone
    context.verdict = watched->verdicts.front().sentence;
  }
  return {command, write_fields(context)};
}

}  // namespace gradsync::arms
