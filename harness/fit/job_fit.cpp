#include "harness/fit/job_fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <set>

#include "harness/base/errors.h"
#include "harness/base/log.h"
#include "harness/paper/standins.h"
#include "harness/watch/hold/watched_job.h"
#include "harness/watch/hold/whole_job.h"
#include "harness/watch/inject/environment.h"

namespace gradsync::fit {
namespace {

constexpr const char* kLog = "job.log";
constexpr double kGiB = 0x1p30;

// The GPUs of the job, as "NAME=value" for the replay.
std::vector<std::string> paper_variables(const std::string& standins, const std::string& on) {
  std::vector<std::string> variables;
  for (const auto& [name, value] : paper::environment_of(standins, on)) {
    variables.push_back(fmt::format("{}={}", name, value));
  }
  return variables;
}

bool ran_out(const Allocations& allocations) {
  return std::ranges::any_of(allocations.records, [](const AllocationRecord& record) {
    return record.action == Action::OutOfMemory;
  });
}

int communicators_of(const watch::RankEvents& rank) {
  std::set<std::int64_t> groups;
  for (const watch::Event& event : rank.events) {
    if (event.kind == watch::EventKind::Collective) groups.insert(event.object);
  }
  return static_cast<int>(groups.size());
}

void judge_end(const Allocations& allocations, const std::string& failure, RankFit& rank) {
  const bool was_out = ran_out(allocations);
  if (!allocations.out_of_memory.empty() || (was_out && !failure.empty())) {
    rank.outcome = Outcome::OutOfMemory;
    rank.reason = allocations.out_of_memory;
    if (rank.reason.empty()) rank.reason = "memory was out, and the job ended: " + failure;
  } else if (was_out) {
    rank.reason = "memory was out, and the job went on";
  } else if (!failure.empty()) {
    rank.reason = "ended with the job: " + failure;
  }
}

bool is_within_model(Phase phase) {
  return phase == Phase::Forward || phase == Phase::Backward;
}

// A process without a launcher has none.
int number_of(const watch::RankEvents& process) {
  return std::max(process.rank, 0);
}

RankFit judge(const watch::RankEvents& process, const Allocations& allocations,
              const std::string& failure) {
  const int device = main_device(allocations);
  const Phases phases(process);
  const std::vector<Block> blocks = blocks_of(allocations, device);
  const Highest peak = highest_allocated(allocations, device);
  RankFit rank;
  rank.rank = number_of(process);
  rank.peak_allocated_bytes = peak.bytes;
  rank.peak_reserved_bytes = highest_reserved(allocations, device).bytes;
  rank.communicators = communicators_of(process);
  if (!allocations.records.empty()) {
    rank.place = phases.at(allocations.records[peak.record].time_ns);
    if (is_within_model(rank.place.phase)) {
      rank.module = module_at(peak.record, blocks, allocations);
    }
    rank.parts = composition_at(peak, blocks, allocations, phases);
  }
  judge_end(allocations, failure, rank);
  return rank;
}

// One run of a job, and what is made of it.
class Fitting {
 public:
  explicit Fitting(const Question& question)
      : question_(question), torch_(watch::find_job_torch(question.command, question.python)) {}

  JobFit run(const std::function<void()>& poll) {
    std::string wrong;
    fit_.gpus = paper::parse_gpus(question_.on, wrong);
    fit_.variable = settings_variable(torch_);
    standins_ = paper::build_standins(torch_.folder);
    libraries_ = build_libraries(torch_);
    const watch::EventFolder folder(question_.keep);
    folder_ = folder.path();
    run_job(poll);
    judge_ranks();
    if (waits_for_streams()) run_behind(poll);
    for (std::size_t i = 0; i < fit_.ranks.size(); ++i) {
      look_beside_context(fit_.ranks[i], *recorded_[i]);
    }
    replay_largest();
    return std::move(fit_);
  }

 private:
  watch::WholeJob job_into(const std::string& records, const std::string& log) const {
    watch::WholeJob job{.command = question_.command,
                        .python = question_.python,
                        .torch = torch_,
                        .on = question_.on,
                        .more = watch::own_port(),
                        .keep = folder_ + "/" + records,
                        .log = folder_ + "/" + log,
                        .steps = question_.steps,
                        .step_deadline_s = question_.step_deadline_s,
                        .processes = question_.world > 0 ? 1 : 0};
    job.more.emplace_back(kRecorderVariable, libraries_.recorder);
    if (question_.world > 0) add_world(job.more);
    return job;
  }

  void run_job(const std::function<void()>& poll) {
    const watch::WholeJob job = job_into("recorded", kLog);
    seen_ = watch::run_whole_job(job, poll);
    fit_.steps = static_cast<int>(seen_.steps);
    fit_.failure = seen_.failure;
    allocations_ = read_allocations(job.keep);
    if (!fit_.failure.empty() && std::ranges::none_of(allocations_, ran_out)) tell_output();
  }

  bool waits_for_streams() const {
    return fit_.failure.empty() && std::ranges::any_of(recorded_, [](const Allocations* process) {
             return fit::waits_for_streams(*process, main_device(*process));
           });
  }

  void run_behind(const std::function<void()>& poll) {
    log::info("once more, with the GPU far behind the host ...");
    watch::WholeJob job = job_into("behind", "behind.log");
    job.more.emplace_back("GRADSYNC_PAPER_EVENTS", "late");
    const watch::SeenJob seen = watch::run_whole_job(job, poll);
    const std::vector<Allocations> all = read_allocations(job.keep);
    for (const watch::RankEvents* process : watch::training_processes(seen.folder.ranks)) {
      const auto rank = std::ranges::find(fit_.ranks, number_of(*process), &RankFit::rank);
      const auto recorded = std::ranges::find(all, process->pid, &Allocations::pid);
      if (rank == fit_.ranks.end() || recorded == all.end()) continue;
      const RankFit behind = judge(*process, *recorded, seen.failure);
      if (behind.outcome == Outcome::Ok && !seen.failure.empty()) continue;
      rank->behind = {behind.outcome,
                      std::max(behind.peak_reserved_bytes, rank->peak_reserved_bytes)};
    }
    if (seen.failure.empty() || std::ranges::any_of(all, ran_out)) return;
    fit_.notes.push_back(
        "what torch reserves with the GPU far behind the host is not known: the job " +
        seen.failure);
  }

  // Torch gives back what it caches before it is out of memory.
  void look_beside_context(RankFit& rank, const Allocations& allocations) const {
    const auto left = static_cast<std::int64_t>(fit_.gpus.memory_bytes()) -
                      beside_reserved(rank.communicators).least;
    if (rank.outcome == Outcome::OutOfMemory || rank.peak_reserved_bytes <= left) return;
    const std::string on =
        fmt::format("{}x{:.9f}GiB", fit_.gpus.count, static_cast<double>(left) / kGiB);
    rank.is_out_beside_context = replay(libraries_, allocations, main_device(allocations),
                                        paper_variables(standins_, on), own_setting())
                                     .is_out_of_memory;
  }

  // As the job's environment has it, unless its command changes that.
  std::string own_setting() const {
    const char* setting = std::getenv(fit_.variable.c_str());
    return setting == nullptr ? "" : fmt::format("{}={}", fit_.variable, setting);
  }

  // Its log may go with the folder. Torchrun's own report at the end does not say why a rank
  // failed.
  void tell_output() const {
    constexpr std::size_t kMostLines = 40;
    constexpr const char* kTorchrun = "] failed (exitcode";
    std::ifstream log(folder_ + "/" + kLog);
    std::deque<std::string> lines;
    for (std::string line; std::getline(log, line);) {
      if (line.find(kTorchrun) != std::string::npos) break;
      lines.push_back(line);
      if (lines.size() > kMostLines) lines.pop_front();
    }
    log::info(fmt::format("the job's output ended with:\n{}", fmt::join(lines, "\n")));
  }

  void add_world(watch::EnvironmentChanges& changes) const {
    changes.emplace_back("GRADSYNC_PAPER_WORLD", std::to_string(question_.world));
    changes.emplace_back("GRADSYNC_PAPER_REAL", "1");
  }

  // One that ran out before its first backward did nothing that the watcher knows.
  void add_silent_processes() {
    if (!watch::training_processes(seen_.folder.ranks).empty()) return;
    for (const Allocations& allocations : allocations_) {
      watch::RankEvents process;
      process.pid = allocations.pid;
      process.rank = 0;
      process.world_size = 1;
      seen_.folder.ranks.push_back(std::move(process));
    }
  }

  void judge_ranks() {
    add_silent_processes();
    for (const watch::RankEvents* process : watch::training_processes(seen_.folder.ranks)) {
      const auto found = std::ranges::find(allocations_, process->pid, &Allocations::pid);
      if (found == allocations_.end()) continue;
      fit_.world = std::max({fit_.world, process->world_size, 1});
      fit_.ranks.push_back(judge(*process, *found, fit_.failure));
      recorded_.push_back(&*found);
      if (found->lost > 0) {
        fit_.notes.push_back(fmt::format("rank {} made {} allocations more than are kept",
                                         process->rank, found->lost));
      }
    }
    if (question_.world > 0 && !fit_.ranks.empty() && fit_.world != question_.world) {
      throw EnvironmentError(
          fmt::format("the job took no part in a world of {}: its own has {} ranks",
                      question_.world, fit_.world),
          "start one process of it by torchrun --nproc-per-node 1, and have it use NCCL");
    }
    if (!fit_.ranks.empty()) return;
    throw EnvironmentError(
        fmt::format("nothing was seen of the job's GPUs: {}",
                    fit_.failure.empty() ? watch::why_no_step(seen_) : "it " + fit_.failure),
        "have it train on \"cuda\"; what it printed is kept with --keep DIR");
  }

  // The first rank that ran out, else the one that reserved most.
  void replay_largest() {
    const auto weight = [](const RankFit& rank) {
      return std::pair{rank.outcome == Outcome::OutOfMemory, rank.peak_reserved_bytes};
    };
    const auto largest = std::ranges::max_element(fit_.ranks, {}, weight);
    const Allocations& allocations =
        *recorded_[static_cast<std::size_t>(largest - fit_.ranks.begin())];
    const int device = main_device(allocations);
    const auto paper = paper_variables(standins_, question_.on);
    fit_.replayed_rank = largest->rank;
    if (has_workspaces(allocations, device)) {
      fit_.without_workspaces = replay(libraries_, allocations, device, paper, own_setting(), true);
    }
    if (!question_.tries_settings) return;
    for (const std::string_view setting : settings()) {
      const std::string words = setting.empty() ? "" : fmt::format("{}={}", fit_.variable, setting);
      fit_.settings.push_back({setting, replay(libraries_, allocations, device, paper, words)});
    }
  }

  const Question& question_;
  watch::JobTorch torch_;
  std::string standins_, folder_;
  Libraries libraries_;
  watch::SeenJob seen_;
  std::vector<Allocations> allocations_;
  std::vector<const Allocations*> recorded_;  // in the order of the ranks
  JobFit fit_;
};

}  // namespace

JobFit find_fit(const Question& question, const std::function<void()>& poll) {
  return Fitting(question).run(poll);
}

Fits fits_of(const RankFit& rank, const paper::Gpus& gpus) {
  if (rank.outcome == Outcome::OutOfMemory || rank.is_out_beside_context) return Fits::No;
  const Behind behind = rank.behind.value_or(Behind{Outcome::Ok, rank.peak_reserved_bytes});
  const auto memory = static_cast<std::int64_t>(gpus.memory_bytes());
  const bool has_room =
      behind.peak_reserved_bytes + beside_reserved(rank.communicators).most <= memory;
  return has_room && behind.outcome == Outcome::Ok ? Fits::Yes : Fits::Barely;
}

Beside beside_reserved(int communicators) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  constexpr std::int64_t kLeastContext = 200 * kMiB, kMostContext = 700 * kMiB;
  constexpr std::int64_t kLeastNccl = 32 * kMiB, kMostNccl = 1640 * kMiB;
  return {kLeastContext + communicators * kLeastNccl, kMostContext + communicators * kMostNccl};
}

}  // namespace gradsync::fit
