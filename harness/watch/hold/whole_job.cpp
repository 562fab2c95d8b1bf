#include "harness/watch/hold/whole_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include "harness/base/clock.h"
#include "harness/base/log.h"
#include "harness/paper/standins.h"
#include "harness/results/write_file.h"
#include "harness/watch/hold/job_processes.h"
#include "harness/watch/hold/watched_job.h"
#include "harness/watch/inject/environment.h"
#include "harness/watch/judge/steps/job_counts.h"
#include "harness/watch/judge/watched.h"
#include "harness/watch/read/account_file.h"

namespace gradsync::watch {
namespace {

constexpr const char* kPreloadVariable = "LD_PRELOAD";

// Passes on to stderr what a job adds to its log.
class LogFollower {
 public:
  explicit LogFollower(const std::string& path) : file_(path, std::ios::binary | std::ios::ate) {}

  void follow() {
    file_.clear();
    const std::string text{std::istreambuf_iterator<char>(file_), {}};
    results::write_all(2, text);
  }

 private:
  std::ifstream file_;
};

// Why the watcher ends a job.
struct BudgetIsOver {};
struct HoldsTooMuch {
  std::int64_t bytes;
};

bool has_gpu() {
  std::error_code ignored;
  return std::filesystem::exists("/dev/nvidiactl", ignored) ||
         std::filesystem::exists("/dev/kfd", ignored);
}

// What all processes surely wrote whole: one that was ended may have died in the middle of a step.
void leave_out_the_last_step(SeenJob& seen) {
  const auto whole = static_cast<std::size_t>(std::max<std::int64_t>(seen.steps - 1, 0));
  seen.folder.ranks =
      whole == 0 ? std::vector<RankEvents>{} : first_steps(std::move(seen.folder.ranks), whole);
  seen.steps = static_cast<std::int64_t>(whole);
}

void add_to(EnvironmentChanges& environment, const EnvironmentChanges& more) {
  for (const auto& change : more) {
    const auto found =
        std::ranges::find(environment, change.first, &EnvironmentChanges::value_type::first);
    if (change.first == kPreloadVariable && found != environment.end()) {
      found->second += ":" + change.second;
    } else {
      environment.push_back(change);
    }
  }
}

// Drops the peaks of processes without a GPU: on GPUs of paper, memory of the host is not asked
// for.
void forget_peaks_of_the_host(WatchedFolder& folder) {
  for (RankEvents& process : folder.ranks) {
    if (!process.peak.is_on_gpu) process.peak.bytes = Unknown{"it used no GPU that could be seen"};
  }
}

void run_to_its_end(HeldJob& held, SeenJob& seen) {
  const JobEnd end = held.finish();
  seen.steps = end.steps;
  if (!end.well) seen.failure = fmt::format("made {} steps, then {}", end.steps, end.how);
}

// A job that is over before is none that failed.
void run_steps(HeldJob& held, int steps, SeenJob& seen) {
  const TakenBlock block = held.run(steps);
  seen.steps = held.ended();
  if (!block.failure.empty() && !block.ended_well) seen.failure = block.failure;
}

void run(HeldJob& held, const std::optional<int>& steps, SeenJob& seen) {
  try {
    if (steps) {
      run_steps(held, *steps, seen);
    } else {
      run_to_its_end(held, seen);
    }
  } catch (const BudgetIsOver&) {
    seen.was_ended = true;
    seen.steps = held.ended();
  } catch (const HoldsTooMuch& found) {
    seen.too_much_bytes = found.bytes;
    seen.steps = held.ended();
  }
}

}  // namespace

SeenJob run_whole_job(const WholeJob& job, const std::function<void()>& poll) {
  const JobTorch torch = job.torch ? *job.torch : find_job_torch(job.command, job.python);
  const EventFolder folder(job.keep);
  EnvironmentChanges environment =
      watching(torch, library_for(torch, folder.path()), folder.path());
  if (!job.on.empty()) {
    add_to(environment, paper::environment_of(paper::build_standins(torch.folder), job.on));
  }
  add_to(environment, job.more);
  SeenJob seen;
  seen.torch = torch.version;
  const std::ofstream log(job.log, std::ios::app);  // it must be there to be followed
  LogFollower follower(job.log);
  const std::int64_t start_ns = steady_clock().now_ns();
  const bool looks_at_memory = job.most_bytes && job.on.empty() && !has_gpu();
  {
    HeldJob held(
        {job.command, environment, folder.path(), job.log, job.processes},
        {.step_s = job.step_deadline_s}, [&] {
          if (poll) poll();
          if (!job.on.empty()) require_host_memory(folder.path());
          if (job.shows_output) follower.follow();
          if (job.budget_s && seconds(steady_clock().now_ns() - start_ns) > *job.budget_s) {
            throw BudgetIsOver();
          }
          if (!looks_at_memory) return;
          const std::int64_t held_bytes = tensor_peak_so_far(folder.path());
          if (held_bytes > *job.most_bytes) throw HoldsTooMuch{held_bytes};
        });
    run(held, job.steps, seen);
  }
  if (job.shows_output) follower.follow();
  seen.folder = read_folder(folder.path());
  seen.accounts = read_accounts(folder.path());
  if (!job.on.empty()) forget_peaks_of_the_host(seen.folder);
  if (seen.was_ended) leave_out_the_last_step(seen);
  return seen;
}

std::string why_no_step(const SeenJob& job) {
  const std::set<std::string> faults(job.folder.faults.begin(), job.folder.faults.end());
  if (!faults.empty()) return fmt::format("{}", fmt::join(faults, "; "));
  const std::string why = why_nothing_was_seen(job.folder);
  return why.empty() ? "no optimizer step of it was seen" : why;
}

}  // namespace gradsync::watch
