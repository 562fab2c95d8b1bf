#include "harness/session/session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "harness/base/build_info.h"
#include "harness/base/clock.h"
#include "harness/base/fields.h"
#include "harness/base/log.h"
#include "harness/base/program_files.h"
#include "harness/coordinate/merge.h"
#include "harness/report/formats.h"
#include "harness/results/block_time.h"
#include "harness/session/paths.h"
#include "harness/session/plan_length.h"
#include "harness/session/plots.h"
#include "harness/summary/build_result.h"

namespace gradsync::session {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// The links of an earlier context, kept as they were written, whatever was measured then.
struct EarlierLinks {
  json links = json::object();
};

constexpr auto fields_of(const EarlierLinks*) {
  return std::tuple{field("links", &EarlierLinks::links).later()};
}

// Long enough for TCP to reach the line's rate, short against a plan.
constexpr double kLinkTestS = 0.4;

std::string default_directory(const plan::Plan& plan) {
  const std::string name =
      fmt::format("{}_{}_{}", plan.name, utc_timestamp(true), build_info().commit);
  return default_result_folder(name);
}

// The terminal's width in columns; 80 where stderr is none.
std::size_t terminal_width() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

text::ProgressOptions progress_options(const RunOptions& options) {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  return {.terminal = terminal,
          .colour = terminal && std::getenv("NO_COLOR") == nullptr,
          .quiet = options.quiet,
          .width = terminal_width()};
}

std::string key_of(const plan::Launch& launch, const plan::Trial& trial) {
  return results::trial_key(launch.part, json(trial.cell), launch.launch, trial.round);
}

const plan::Part& part_named(const plan::Plan& plan, const std::string& name) {
  const auto part = std::ranges::find(plan.parts, name, &plan::Part::name);
  GRADSYNC_CHECK(part == plan.parts.end(), ==, false);
  return *part;
}

bool has_valid_times(const results::TrialRecord& trial) {
  return !trial.step_s.empty() && (!trial.model_info || trial.model_info->has_valid_times());
}

results::TrialRecord skipped_record(const plan::Launch& launch, const plan::Trial& trial,
                                    const std::string& reason) {
  results::TrialRecord record = coordinate::record_of(launch.part, launch.launch, trial);
  record.status = results::Status::Skipped;
  record.reason = reason;
  return record;
}

}  // namespace

Session::Session(const RunOptions& options, plan::Plan plan, RunContext context,
                 launch::Agents* agents)
    : options_(options),
      plan_(std::move(plan)),
      context_(std::move(context)),
      agents_(agents),
      launches_(options_, plan_, agents_,
                [this](const std::string& name, const launch::Fabric& fabric) {
                  if (const auto link = fabric.self_test(kLinkTestS)) {
                    context_.conditions.links[name] = *link;
                  }
                }) {
  if (agents != nullptr) context_.conditions.launcher = agents->place().launcher;
  directory_ = options.out.empty() ? default_directory(plan_) : options.out;
  results::prepare_directory(directory_, options.resume, options.force);
  log_ = std::make_unique<results::TrialLog>(directory_);
  show_progress_of({});
  if (options.resume) resume_earlier();
  // Written before the first trial, so that a run that dies can be resumed.
  write_result(summary::build_result(json(context_), plan_.source, trials_));
}

void Session::resume_earlier() {
  const results::StoredResult earlier = results::read_result(directory_);
  results::check_resumable(earlier, plan_.source, json(context_));
  std::string warning;
  trials_ = results::read_trials(directory_, &warning);
  if (!warning.empty()) log::warn(warning);
  done_ = results::done_keys(trials_);
  // What failed or was skipped runs again, and its new record replaces the old one.
  std::erase_if(trials_, [&](const results::TrialRecord& trial) {
    return !done_.contains(results::trial_key(trial.part, trial.cell, trial.launch, trial.round));
  });
  Conditions& run = context_.conditions;
  run.start_time = earlier.context.start_time.value_or(utc_timestamp());
  run.links = read_fields<EarlierLinks>(earlier.context.written, directory_).links;
  run.resumed = true;
}

const results::TrialRecord& Session::run_alone(const plan::Part& part, const plan::Cell& cell) {
  run_some(part, {cell}, 0);
  return trials_.back();
}

void Session::run_some(const plan::Part& part, const std::vector<plan::Cell>& cells, int number) {
  plan::Plan some = plan_;
  some.parts = {part};
  some.parts.front().cells = cells;
  for (plan::Launch& launch : plan::expand(some)) {
    if (launch.launch != number) continue;
    for (std::size_t i = 0; i < launch.trials.size(); ++i) {
      launch.trials[i].order = static_cast<int>(trials_.size() + i);
    }
    run_one(launch);
  }
}

std::optional<std::int64_t> Session::predicted_peak(const plan::Part& part,
                                                    const plan::Cell& cell) const {
  return launches_.predicted_peak({part.name, cell.topology, 0, cell.scale, {}}, cell);
}

results::Context Session::context() const {
  return results::Context(json(context_));
}

void Session::run() {
  std::vector<plan::Launch> launches = plan::expand(plan_);
  std::vector<text::PlannedTrial> planned;
  for (plan::Launch& launch : launches) {
    std::erase_if(launch.trials,
                  [&](const plan::Trial& trial) { return done_.contains(key_of(launch, trial)); });
    const plan::Part& part = part_named(plan_, launch.part);
    for (const plan::Trial& trial : launch.trials) {
      planned.push_back({trial.cell.topology, trial.cell.strategy, json(trial.cell).dump(),
                         launch.launch, part.launches, trial.steps + trial.warmup_steps});
    }
  }
  std::erase_if(launches, [](const plan::Launch& launch) { return launch.trials.empty(); });
  announce_length(launches);
  show_progress_of(std::move(planned));
  for (const plan::Launch& launch : launches) run_one(launch);
  progress_->clear();
}

// By runs that lie where results go, and beside this one.
void Session::announce_length(const std::vector<plan::Launch>& launches) const {
  if (options_.quiet || launches.empty()) return;
  std::set<std::string> folders{fs::weakly_canonical(fs::path(directory_)).parent_path(),
                                fs::weakly_canonical(default_result_folder("run")).parent_path()};
  log::info(length_sentence(plan_, launches,
                            earlier_runs({folders.begin(), folders.end()}, json(context_))));
}

void Session::show_progress_of(std::vector<text::PlannedTrial> planned) {
  progress_ = std::make_unique<text::Progress>(std::cerr, steady_clock(),
                                               progress_options(options_), std::move(planned));
}

std::string Session::obstacle_to(const plan::Launch& launch, const plan::Cell& cell) const {
  if (agents_ != nullptr && cell.scale != 1) {
    return fmt::format(
        "scale {} needs links scaled with it, and {}'s are what they are; start it without a "
        "launcher on one machine, or take plan guides_setup, the guide's training at full size",
        cell.scale, agents_->place().launcher);
  }
  return launches_.lacks_memory_for(launch, cell);
}

void Session::run_one(const plan::Launch& launch) {
  std::vector<plan::Trial> trials;
  for (const plan::Trial& trial : launch.trials) {
    const std::string obstacle = obstacle_to(launch, trial.cell);
    if (obstacle.empty()) {
      trials.push_back(trial);
      continue;
    }
    progress_->begin(progress_index_);
    record(skipped_record(launch, trial, obstacle));
  }
  if (trials.empty()) return;
  const std::optional<coordinate::RunnableLaunch> runnable_launch = runnable(launch, trials);
  if (!runnable_launch) return;
  int running = -1;
  const coordinate::LaunchCallbacks callbacks{
      [this](const results::TrialRecord& trial) { record(trial); },
      [&](const plan::Trial& trial, const launch::RankGroup& group) {
        if (running != trial.order) progress_->begin(progress_index_);
        running = trial.order;
        const launch::RankProgress& seen = group.progress(0);
        if (seen.trial.load() == trial.order) progress_->update(seen.step.load());
      }};
  coordinate::run_launch(*runnable_launch, callbacks);
}

std::optional<coordinate::RunnableLaunch> Session::runnable(
    const plan::Launch& launch, const std::vector<plan::Trial>& trials) {
  try {
    return launches_.runnable(launch, trials);
  } catch (const EnvironmentError& error) {
    for (const plan::Trial& trial : trials) {
      progress_->begin(progress_index_);
      record(skipped_record(launch, trial, error.what()));
    }
    return std::nullopt;
  }
}

// Once for each model: a checkpoint that lacks a task's classifier is normal, but is to be known.
void Session::warn_about_weights(const results::TrialRecord& trial) {
  if (!trial.model_info) return;  // it ended before the model was there
  const std::vector<std::string>& missing = trial.model_info->freshly_initialised;
  const std::string model = trial.cell.model();
  if (missing.empty() || !warned_about_weights_.insert(model).second) return;
  progress_->clear();
  log::warn(fmt::format("{} lacks parameters of {}, which start from random values: {}",
                        options_.weights, model, fmt::join(missing, ", ")));
}

void Session::record(const results::TrialRecord& ended) {
  const results::TrialRecord& trial = trials_.emplace_back(log_->append(ended));
  warn_about_weights(trial);
  std::optional<double> mean_s;
  if (has_valid_times(trial)) {
    const auto time = results::block_time(trial, plan_.window_rule == "as_published");
    if (time) mean_s = time->mean_step_s();
  }
  if (trial.status == results::Status::Ok) read_loaded_gpus();
  progress_->finish(trial.status, trial.reason, mean_s);
  ++progress_index_;
}

void Session::write_result(const results::Result& result) {
  results::write_atomically(directory_ + "/" + results::kResultFile, json(result).dump(1) + "\n");
}

// Beside the ranks, which run on: it costs a core some tens of milliseconds.
void Session::read_loaded_gpus() {
  const Gpus now = gpus_for(plan_, /*nodes_are_hosts=*/agents_ != nullptr);
  if (now) launch::add_readings(context_.conditions.gpus_under_load, *now);
}

void Session::note_throttling() {
  for (const auto& finding : launch::examine_loaded(context_.conditions.gpus_under_load)) {
    context_.conditions.warnings.push_back(finding.what);
  }
}

// Said in the table's head, since such times do not compare with those of a quieter hour.
void Session::note_steal() {
  const std::optional<double> share = steal_.share();
  context_.conditions.steal_share_run.emplace(share);
  if (!share || *share <= launch::kNoticeableSteal) return;
  context_.conditions.warnings.push_back(
      fmt::format("the host gave {:.1f} % of the CPU time to others during the run", 100 * *share));
}

results::Result Session::close(ExitStatus status) {
  context_.conditions.end_time = utc_timestamp();
  context_.conditions.load_after.emplace(launch::load_1min());
  note_steal();
  note_throttling();
  if (agents_ != nullptr && status != ExitStatus::Interrupted) {
    context_.conditions.clocks = agents_->clocks();
  }
  results::Result result = summary::build_result(json(context_), plan_.source, trials_);
  result.exit_status = static_cast<int>(status);
  write_result(result);
  return result;
}

void Session::finish(ExitStatus status) {
  const results::Result result = close(status);
  const std::string page =
      report::result_markdown(result, published_tables(), {.raw_directory = directory_ + "/"});
  results::write_atomically(directory_ + "/table.md", page);
  results::write_atomically(directory_ + "/benchmark.json",
                            report::benchmark_json(result, trials_).dump(1) + "\n");
  if (status != ExitStatus::Interrupted) make_plots("plot.py", directory_);
  std::cout << (options_.json ? json(result).dump(1) + "\n" : page) << std::flush;
}

}  // namespace gradsync::session
