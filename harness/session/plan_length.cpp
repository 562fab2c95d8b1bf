#include "harness/session/plan_length.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <exception>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "harness/base/errors.h"
#include "harness/base/fields.h"
#include "harness/base/units.h"
#include "harness/plan/strategies.h"
#include "harness/results/store.h"
#include "harness/stats/step_law.h"
#include "harness/text/labels.h"

namespace gradsync::session {
namespace {

using nlohmann::json;
using results::Parameters;
namespace fs = std::filesystem;

// Reading one takes milliseconds; more would be noticed before a plan starts.
constexpr std::size_t kMostRuns = 20;
// A micro-batch can be passed over from the third on, and never the last (run/repetition.h).
constexpr int kLeastToPassOver = 4;

// What a run was made under, and what its steps depend on beside their cells.
struct MadeUnder {
  std::string host;
  int cpus_usable = 0;
  std::string device;
  std::string backend;
  int threads_per_rank = 0;
  std::optional<std::string> start_time;
  std::optional<std::string> end_time;
  std::optional<bool> resumed;

  auto conditions() const { return std::tie(host, cpus_usable, device, backend, threads_per_rank); }
};

constexpr auto fields_of(const MadeUnder*) {
  return std::tuple{GRADSYNC_LATER_FIELDS(MadeUnder, host, cpus_usable, device, backend,
                                          threads_per_rank, start_time, end_time, resumed)};
}

std::optional<double> elapsed_s(const MadeUnder& run) {
  if (!run.start_time || !run.end_time || run.resumed.value_or(false)) return std::nullopt;
  const auto second = [](const std::string& text) -> std::optional<std::time_t> {
    std::tm utc{};
    if (strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &utc) == nullptr) return std::nullopt;
    return timegm(&utc);
  };
  const auto start = second(*run.start_time);
  const auto end = second(*run.end_time);
  if (!start || !end || *end < *start) return std::nullopt;
  return static_cast<double>(*end - *start);
}

// Directories with a result, newest first.
std::vector<fs::path> runs_in(const std::vector<std::string>& folders) {
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  for (const std::string& folder : folders) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      const auto written = fs::last_write_time(entry.path() / results::kResultFile, ignored);
      if (!ignored) found.emplace_back(written, entry.path());
    }
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<fs::path> paths;
  for (auto& [written, path] : found) {
    if (paths.size() < kMostRuns) paths.push_back(std::move(path));
  }
  return paths;
}

double steps_s(const results::TrialRecord& trial) {
  const auto sum = [](const std::vector<double>& steps) {
    return std::accumulate(steps.begin(), steps.end(), 0.0);
  };
  return sum(trial.warmup_step_s) + sum(trial.step_s);
}

struct Mean {
  double sum = 0;
  double count = 0;
  void add(double value, double times = 1) {
    sum += value;
    count += times;
  }
  double mean() const { return sum / count; }
};

// Steps of the earlier runs, by cell and by whether every micro-batch ran.
class SeenSteps {
 public:
  explicit SeenSteps(const std::vector<EarlierRun>& runs) {
    for (const EarlierRun& run : runs) {
      for (const results::TrialRecord& trial : run.trials) add(trial);
    }
  }

  std::optional<double> step_s(const Parameters& cell, bool may_pass_over) const {
    const auto found = steps_.find({cell.written().dump(), passes_over(cell, may_pass_over)});
    return found == steps_.end() ? std::nullopt : std::optional(found->second.second.mean());
  }

  // By the law of the cells that differ in strategy and accumulation alone.
  std::optional<double> by_law(const Parameters& cell, bool may_pass_over) const {
    if (passes_over(cell, may_pass_over) || !has_law(cell)) return std::nullopt;
    std::vector<stats::StepPoint> points;
    for (const auto& [key, seen] : steps_) {
      if (!key.second && shared(seen.first) == shared(cell)) {
        points.push_back(point(seen.first, seen.second.mean()));
      }
    }
    const auto law = stats::fit_step_law(points);
    if (!law) return std::nullopt;
    const double step_s = law->step_s(point(cell, 0));
    return step_s > 0 ? std::optional(step_s) : std::nullopt;
  }

 private:
  static bool passes_over(const Parameters& cell, bool may_pass_over) {
    return may_pass_over && cell.accumulation_steps() >= kLeastToPassOver;
  }
  static bool has_law(const Parameters& cell) {
    return cell.wrapper() == "ddp" || cell.wrapper() == "fsdp";
  }
  static Parameters shared(const Parameters& cell) {
    return cell.without({"strategy", "accumulation_steps"});
  }
  static stats::StepPoint point(const Parameters& cell, double step_s) {
    const double micro_batches = cell.accumulation_steps();
    const bool each = plan::syncs_every_micro_batch(cell.wrapper(), cell.strategy());
    return {micro_batches, each ? micro_batches : 1, step_s};
  }
  void add(const results::TrialRecord& trial) {
    const double steps = static_cast<double>(trial.warmup_step_s.size() + trial.step_s.size());
    if (trial.status != results::Status::Ok || steps == 0 || steps_s(trial) <= 0) return;
    const bool passed_over = trial.ledger.declared_micro_batches > 0;
    auto& seen = steps_[{trial.cell.written().dump(), passed_over}];
    seen.first = trial.cell;
    seen.second.add(steps_s(trial), steps);
  }

  std::map<std::pair<std::string, bool>, std::pair<Parameters, Mean>> steps_;
};

// Seconds per start of ranks that are in no step: the processes, the model, what settles.
std::optional<double> start_s(const std::vector<EarlierRun>& runs) {
  Mean start;
  for (const EarlierRun& run : runs) {
    if (!run.elapsed_s) continue;
    std::set<std::tuple<std::string, int, std::string, int>> launches;
    double rest_s = *run.elapsed_s;
    for (const results::TrialRecord& trial : run.trials) {
      launches.emplace(trial.part, trial.launch, trial.cell.topology(), trial.cell.scale());
      rest_s -= steps_s(trial);
    }
    start.add(std::max(0.0, rest_s), static_cast<double>(launches.size()));
  }
  return start.count == 0 ? std::nullopt : std::optional(start.mean());
}

// What is known of the trials, and of how many nothing is.
struct Sum {
  std::size_t seen = 0;
  std::size_t by_law = 0;
  std::size_t unknown = 0;
  double known_s = 0;
};

Sum sum_of(const plan::Plan& plan, const std::vector<plan::Launch>& launches,
           const SeenSteps& steps) {
  Sum sum;
  for (const plan::Launch& launch : launches) {
    for (const plan::Trial& trial : launch.trials) {
      const Parameters cell = json(trial.cell);
      const bool may_pass_over = !trial.timed && !plan.every_micro_batch;
      const int count = trial.warmup_steps + trial.steps + trial.distance_steps;
      std::optional<double> step_s = steps.step_s(cell, may_pass_over);
      if (step_s) {
        ++sum.seen;
      } else if ((step_s = steps.by_law(cell, may_pass_over))) {
        ++sum.by_law;
      } else {
        ++sum.unknown;
      }
      sum.known_s += count * step_s.value_or(0);
    }
  }
  return sum;
}

bool is_whole(const plan::Plan& plan, std::size_t trials) {
  std::size_t all = 0;
  for (const plan::Launch& launch : plan::expand(plan)) all += launch.trials.size();
  return trials == all;
}

}  // namespace

std::vector<EarlierRun> earlier_runs(const std::vector<std::string>& folders,
                                     const results::Context& context) {
  const auto here = read_fields<MadeUnder>(context.written, "this run");
  std::vector<EarlierRun> runs;
  for (const fs::path& path : runs_in(folders)) {
    try {
      const results::StoredResult stored = results::read_result(path);
      const auto there = read_fields<MadeUnder>(stored.context.written, path.string());
      if (there.conditions() != here.conditions() || !stored.exit_status) continue;
      const bool whole = stored.exit_status == static_cast<int>(ExitStatus::Ok);
      runs.push_back({fs::proximate(path).string(), there.start_time.value_or("").substr(0, 10),
                      stored.plan, whole ? elapsed_s(there) : std::nullopt,
                      results::read_trials(path)});
    } catch (const std::exception&) {
      continue;  // of another version, or being written
    }
  }
  return runs;
}

std::string length_sentence(const plan::Plan& plan, const std::vector<plan::Launch>& launches,
                            const std::vector<EarlierRun>& runs) {
  std::size_t trials = 0;
  for (const plan::Launch& launch : launches) trials += launch.trials.size();
  const std::string counted = text::counted(trials, "trial", "trials");
  for (const EarlierRun& run : runs) {
    if (!run.elapsed_s || run.plan != plan.source || !is_whole(plan, trials)) continue;
    return fmt::format("{}, about {}: as long as the same plan took on {} ({})", counted,
                       format_duration(*run.elapsed_s), run.day, run.directory);
  }
  const Sum sum = sum_of(plan, launches, SeenSteps(runs));
  if (sum.unknown == trials) {
    return fmt::format("{}; their duration is not known: no earlier run here had such steps",
                       counted);
  }
  const double length_s =
      sum.known_s + start_s(runs).value_or(0) * static_cast<double>(launches.size());
  std::string text =
      fmt::format("{}, {} {}: {} as measured in earlier runs here", counted,
                  sum.unknown == 0 ? "about" : "more than", format_duration(length_s), sum.seen);
  if (sum.by_law > 0) text += fmt::format(", {} extrapolated from those", sum.by_law);
  if (sum.unknown > 0) text += fmt::format("; {} not known", sum.unknown);
  return text;
}

}  // namespace gradsync::session
