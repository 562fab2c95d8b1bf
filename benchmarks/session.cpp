#include "benchmarks/session.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "benchmarks/context.h"
#include "benchmarks/interrupt.h"
#include "benchmarks/paths.h"
#include "benchmarks/plots.h"
#include "harness/base/build_info.h"
#include "harness/base/clock.h"
#include "harness/base/json_fields.h"
#include "harness/base/log.h"
#include "harness/launch/host.h"
#include "harness/launch/topology.h"
#include "harness/report/benchmark_json.h"
#include "harness/report/markdown.h"
#include "harness/report/result.h"

namespace gradsync::cli {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// Long enough for TCP to reach the line's rate, short against a plan.
constexpr double kLinkTestS = 0.4;

// In the checkout, wherever the program is called from; named as seen from here.
std::string default_directory(const plan::Plan& plan) {
  const std::string name =
      fmt::format("{}_{}_{}", plan.name, utc_timestamp(true), build_info().commit);
  return fs::proximate(source_file("results/runs/" + name)).string();
}

// The terminal's width in columns; 80 where stderr is none.
std::size_t terminal_width() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

report::ProgressOptions progress_options(const RunOptions& options) {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  return {.terminal = terminal,
          .colour = terminal && std::getenv("NO_COLOR") == nullptr,
          .quiet = options.quiet,
          .width = terminal_width()};
}

std::string key_of(const plan::Launch& launch, const plan::Trial& trial) {
  return results::trial_key(launch.part, trial.cell, launch.launch, trial.round);
}

const plan::Part& part_named(const plan::Plan& plan, const std::string& name) {
  const auto part = std::find_if(plan.parts.begin(), plan.parts.end(),
                                 [&](const plan::Part& p) { return p.name == name; });
  GRADSYNC_CHECK(part == plan.parts.end(), ==, false);
  return *part;
}

results::TrialRecord skipped_record(const plan::Launch& launch, const plan::Trial& trial,
                                    const std::string& reason) {
  results::TrialRecord record;
  record.part = launch.part;
  record.cell = trial.cell;
  record.launch = launch.launch;
  record.round = trial.round;
  record.order = trial.order;
  record.status = results::Status::Skipped;
  record.reason = reason;
  return record;
}

}  // namespace

Session::Session(const RunOptions& options, plan::Plan plan)
    : options_(options), plan_(std::move(plan)), context_(make_context(options, plan_)) {
  directory_ = options.out.empty() ? default_directory(plan_) : options.out;
  results::prepare_directory(directory_, options.resume, options.force);
  log_ = std::make_unique<results::TrialLog>(directory_);
  if (options.resume) resume_earlier();
  // Written before the first trial, so that a run that dies can be resumed.
  json result = report::build_result(context_, plan_.source, trials_);
  result["exit_status"] = nullptr;
  write_result(result);
}

void Session::resume_earlier() {
  const json old_result = results::read_result(directory_);
  results::check_resumable(old_result, plan_.source, build_info().commit,
                           context_.value("host", ""));
  std::string warning;
  trials_ = results::read_trials(directory_, &warning);
  if (!warning.empty()) log::warn(warning);
  done_ = results::done_keys(trials_);
  // What failed or was skipped runs again, and its new record replaces the old one.
  std::erase_if(trials_, [&](const results::TrialRecord& trial) {
    return !done_.contains(results::trial_key(trial.part, trial.cell, trial.launch, trial.round));
  });
  context_["start_time"] = old_result.at("context").value("start_time", utc_timestamp());
  context_["links"] = old_result.at("context").value("links", json::object());
  context_["resumed"] = true;
}

void Session::run() {
  std::vector<plan::Launch> launches = plan::expand(plan_);
  std::vector<report::PlannedTrial> planned;
  for (plan::Launch& launch : launches) {
    std::erase_if(launch.trials,
                  [&](const plan::Trial& trial) { return done_.contains(key_of(launch, trial)); });
    const plan::Part& part = part_named(plan_, launch.part);
    for (const plan::Trial& trial : launch.trials) {
      planned.push_back({trial.cell.topology, trial.cell.strategy, json(trial.cell).dump(),
                         launch.launch, part.launches, trial.steps + trial.warmup_steps});
    }
  }
  progress_ = std::make_unique<report::Progress>(std::cerr, steady_clock(),
                                                 progress_options(options_), planned);
  for (const plan::Launch& launch : launches) {
    if (!launch.trials.empty()) run_one(launch);
  }
  progress_->clear();
}

void Session::run_one(const plan::Launch& launch) {
  run::LaunchJob job;
  job.part = launch.part;
  job.interrupted = &interrupt_flag();
  for (const plan::Trial& trial : launch.trials) {
    if (trial.cell.wrapper == "ddp") {
      job.spec.trials.push_back(trial);
      continue;
    }
    progress_->begin(progress_index_);
    record(skipped_record(launch, trial,
                          fmt::format("wrapper '{}' is not in this build", trial.cell.wrapper)));
  }
  if (job.spec.trials.empty()) return;
  job.spec.topology = launch::read_topology(launch.topology, topologies_directory(), launch.scale);
  const launch::Fabric* fabric = fabric_for(job.spec.topology, launch, job.spec.trials);
  if (fabric == nullptr) return;
  job.spec.seed = plan_.seed;
  job.spec.launch = launch.launch;
  job.spec.timeout_s = plan_.timeout_s;
  job.spec.as_published = plan_.window_rule == "as_published";
  job.spec.threads_per_rank = plan_.threads_per_rank;
  job.spec.device = plan_.device;
  job.spec.backend = plan_.backend;
  job.spec.weights = options_.weights;
  job.spec.data = options_.data;
  job.spawn.command = {fs::read_symlink("/proc/self/exe").string(), "rank"};
  // c10d warns that a private namespace has no names for its addresses; it needs none.
  job.spawn.environment = {{"TORCH_CPP_LOG_LEVEL", "ERROR"}};
  job.spawn.threads_per_rank = plan_.threads_per_rank;
  job.usable_cpus = context_.value("cpus", 1);
  int running = -1;
  const run::LaunchCallbacks callbacks{
      [this](const results::TrialRecord& trial) { record(trial); },
      [&](const plan::Trial& trial, const launch::RankGroup& group) {
        if (running != trial.order) progress_->begin(progress_index_);
        running = trial.order;
        const launch::RankPage& page = group.page(0);
        if (page.trial.load() == trial.order) progress_->update(page.step.load());
      }};
  run::run_launch(job, *fabric, callbacks);
}

const launch::Fabric* Session::fabric_for(const launch::Topology& topology,
                                          const plan::Launch& launch,
                                          const std::vector<plan::Trial>& trials) {
  const std::string key = fmt::format("{} / {}", launch.topology, launch.scale);
  const auto found = fabrics_.find(key);
  if (found != fabrics_.end()) return found->second.get();
  try {
    auto fabric = launch::make_fabric(topology);
    const json link = fabric->self_test(kLinkTestS);
    if (!link.is_null()) context_["links"][key] = link;
    return (fabrics_[key] = std::move(fabric)).get();
  } catch (const EnvironmentError& error) {
    for (const plan::Trial& trial : trials) {
      progress_->begin(progress_index_);
      record(skipped_record(launch, trial, error.what()));
    }
    return nullptr;
  }
}

void Session::record(const results::TrialRecord& trial) {
  log_->append(trial);
  trials_.push_back(trial);
  std::optional<double> mean_s;
  if (!trial.step_s.empty()) {
    double sum_s = 0;
    for (const double step_s : trial.step_s) sum_s += step_s;
    mean_s = sum_s / static_cast<double>(trial.step_s.size());
  }
  progress_->finish(trial.status, trial.reason, mean_s);
  ++progress_index_;
}

void Session::write_result(const json& result) {
  results::write_atomically(directory_ + "/" + results::kResultFile, result.dump(1) + "\n");
}

json Session::finish(bool interrupted) {
  context_["end_time"] = utc_timestamp();
  context_["load_after"] = launch::probe_host().at("load_1min");
  json result = report::build_result(context_, plan_.source, trials_);
  result["exit_status"] =
      static_cast<int>(interrupted ? ExitStatus::Interrupted : exit_status_of(trials_));
  write_result(result);
  const json reference = fs::exists(reference_file()) ? read_json_file(reference_file()) : json();
  const std::string page =
      report::result_markdown(result, reference, {.raw_directory = directory_ + "/"});
  results::write_atomically(directory_ + "/table.md", page);
  results::write_atomically(directory_ + "/benchmark.json",
                            report::benchmark_json(result, trials_).dump(1) + "\n");
  if (!interrupted) make_plots(directory_);
  std::cout << (options_.json ? result.dump(1) + "\n" : page) << std::flush;
  return result;
}

ExitStatus exit_status_of(const std::vector<results::TrialRecord>& trials) {
  using results::Status;
  const auto count = [&](auto... statuses) {
    return std::count_if(trials.begin(), trials.end(), [&](const results::TrialRecord& trial) {
      return ((trial.status == statuses) || ...);
    });
  };
  if (count(Status::Skipped) == static_cast<std::ptrdiff_t>(trials.size()))
    return ExitStatus::Unfit;
  if (count(Status::Failed, Status::Timeout, Status::Invalid, Status::Oom) > 0) {
    return ExitStatus::Failed;
  }
  return ExitStatus::Ok;
}

}  // namespace gradsync::cli
