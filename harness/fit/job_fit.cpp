#include "harness/fit/job_fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
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

// The GPUs of the job, as "NAME=value" for the replay.
std::vector<std::string> paper_variables(const std::string& standins, const std::string& on) {
  std::vector<std::string> variables;
  for (const auto& [name, value] : paper::environment_of(standins, on)) {
    variables.push_back(name + "=" + value);
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

RankFit judge(const watch::RankEvents& process, const Allocations& allocations,
              const std::string& failure) {
  const int device = main_device(allocations);
  const Phases phases(process);
  const std::vector<Block> blocks = blocks_of(allocations, device);
  const Highest peak = highest_allocated(allocations, device);
  RankFit rank;
  rank.rank = std::max(process.rank, 0);
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
    replay_largest();
    return std::move(fit_);
  }

 private:
  void run_job(const std::function<void()>& poll) {
    watch::WholeJob job{.command = question_.command,
                        .python = question_.python,
                        .on = question_.on,
                        .more = watch::own_port(),
                        .log = folder_ + "/" + kLog,
                        .steps = question_.steps,
                        .step_deadline_s = question_.step_deadline_s,
                        .processes = question_.world > 0 ? 1 : 0};
    job.keep = folder_ + "/recorded";
    job.more.emplace_back(kRecorderVariable, libraries_.recorder);
    if (question_.world > 0) add_world(job.more);
    seen_ = watch::run_whole_job(job, poll);
    fit_.steps = static_cast<int>(seen_.steps);
    fit_.failure = seen_.failure;
    allocations_ = read_allocations(job.keep);
    if (!fit_.failure.empty() && std::ranges::none_of(allocations_, ran_out)) tell_output();
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
      fit_.world = std::max(fit_.world, process->world_size);
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
    fit_.replayed_rank = largest->rank;
    if (!question_.tries_settings) return;
    const auto paper = paper_variables(standins_, question_.on);
    for (const std::string_view setting : settings()) {
      const std::string words = setting.empty() ? "" : fmt::format("{}={}", fit_.variable, setting);
      fit_.settings.push_back(
          {setting, replay(libraries_, allocations, main_device(allocations), paper, words)});
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

Beside beside_reserved(int communicators) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  constexpr std::int64_t kLeastContext = 200 * kMiB, kMostContext = 700 * kMiB;
  constexpr std::int64_t kLeastNccl = 32 * kMiB, kMostNccl = 1640 * kMiB;
  return {kLeastContext + communicators * kLeastNccl, kMostContext + communicators * kMostNccl};
}

}  // namespace gradsync::fit
