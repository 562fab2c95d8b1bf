// gradsync watch: does a training job synchronize when it should, and what does that cost it?
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "benchmarks/commands/commands.h"
#include "harness/base/log.h"
#include "harness/paper/standins.h"
#include "harness/results/store.h"
#include "harness/watch/hold/job_processes.h"
#include "harness/watch/hold/watched_job.h"
#include "harness/watch/inject/environment.h"
#include "harness/watch/inject/job_torch.h"
#include "harness/watch/judge/seen_beside.h"
#include "harness/watch/judge/watched.h"
#include "harness/watch/read/account_file.h"
#include "harness/watch/read/foreign/profiled_steps.h"
#include "harness/watch/read/read_events.h"
#include "harness/watch/tell/export/exports.h"
#include "harness/watch/tell/pages.h"
#include "harness/watch/tell/trace.h"
#include "harness/watch/tell/watched_files.h"

namespace gradsync::cli {
namespace {

namespace fs = std::filesystem;

struct WatchOptions {
  std::vector<std::string> command;
  std::string python;
  std::string json;
  std::string html;
  std::string trace;
  std::string keep;
  std::string on;  // GPUs of paper; "": the machine's own
  watch::ExportOptions exports;
  int steps = 0;  // 0: at the end alone
  bool quiet = false;
  bool fail_on_excess = false;
  bool prepare = false;
  bool account = false;
  bool seconds = false;
  int every = 10;
  double sample = 1;
};

// Prints the library that watches jobs with the torch of `python`, after building it if it was
// never built, and the name that it has in the folder of an installed program.
void prepare_for(const std::string& python) {
  const watch::JobTorch torch = watch::find_job_torch({}, python);
  if (watch::preload_cache().empty() && !watch::shipped_library(torch)) {
    throw EnvironmentError("there is no folder to keep the watcher in", "set XDG_CACHE_HOME");
  }
  const watch::PreloadLibrary library = watch::library_for(torch, "");
  const nlohmann::json paths{{"torch", watch::torch_library(torch)},
                             {"version", torch.version},
                             {"loader", library.loader},
                             {"watcher", library.watcher},
                             {"shipped_as", watch::shipped_as(torch)},
                             {"hook", watch::hook_directory()}};
  std::cout << paths.dump(1) << "\n";
}

// Errors: ConfigError where --on names no GPUs, or goes with what needs values or seconds.
void check_paper(const WatchOptions& options) {
  if (options.on.empty()) return;
  paper::require_gpus(options.on);
  if (options.account) {
    throw ConfigError("--account needs gradients, and with --on none is computed: leave out one");
  }
  const watch::ExportOptions& exports = options.exports;
  if (options.seconds ||
      !(options.trace + exports.prometheus + exports.tensorboard + exports.steps_json).empty()) {
    throw ConfigError(
        "--seconds, --trace, --prometheus, --tensorboard and --steps-json tell seconds, and with "
        "--on there are none: leave out one");
  }
}

// Errors: ConfigError where an account would compute in the steps that are timed.
void check_seconds(const WatchOptions& options) {
  if (options.seconds && options.account && options.every < watch::kStepsForSeconds) {
    throw ConfigError(
        fmt::format("--every: got {}, expected at least {} where --seconds times the first steps",
                    options.every, watch::kStepsForSeconds));
  }
}

class Watcher {
 public:
  // Errors: ConfigError where what is to be exported cannot be written.
  explicit Watcher(const WatchOptions& options) : options_(options), exports_(options.exports) {}

  // Returns the exit status: that of the job, unless it succeeded and there is something to say
  // against it.
  // Errors: EnvironmentError where the GPUs of --on cannot be had, or the job was ended because
  // the host's memory is short.
  int run() {
    if (!options_.on.empty()) put_on_paper();
    const watch::EnvironmentChanges changes = prepare();
    const int status = conclude(watch::run_watched_job(options_.command, changes, [&] { look(); }));
    if (host_is_short_) throw EnvironmentError(*host_is_short_);
    return status;
  }

 private:
  // Returns what the job's environment needs. If something is missing for that, the job still runs.
  watch::EnvironmentChanges prepare() {
    try {
      folder_.emplace(options_.keep);
      const watch::JobTorch torch = job_torch();
      watch::EnvironmentChanges changes =
          watch::watching(torch, watch::library_for(torch, folder_->path()), folder_->path());
      if (options_.account) {
        changes.emplace_back(watch::kAccountVariable,
                             fmt::format("{} {}", options_.every, options_.sample));
      }
      if (options_.seconds) changes.emplace_back(watch::kSecondsVariable, "1");
      return changes;
    } catch (const EnvironmentError& error) {
      why_not_watched_ = error.what();
    } catch (const fs::filesystem_error& error) {
      why_not_watched_ = error.what();
    }
    return {};
  }

  watch::JobTorch job_torch() const {
    return watch::find_job_torch(options_.command, options_.python);
  }

  // From here on, what this program starts has GPUs of paper. The job does not run without them.
  void put_on_paper() const {
    const std::string library = paper::build_standins(job_torch().folder);
    for (const auto& [name, value] : paper::environment_of(library, options_.on)) {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
  }

  // What was seen so far. The job does not wait for it.
  void look() {
    if (!why_not_watched_.empty()) return;
    look_at_host_memory();
    if (options_.steps > 0) tell_steps();
    if (exports_.are_due()) export_steps();
  }

  void look_at_host_memory() {
    if (options_.on.empty()) return;
    try {
      watch::require_host_memory(folder_->path());
    } catch (const EnvironmentError& error) {
      host_is_short_ = error;
    }
  }

  void export_steps() {
    try {
      exports_.update([&] { return watch::read_folder(folder_->path()).ranks; });
    } catch (const std::exception& error) {
      if (!std::exchange(is_export_blamed_, true)) log::warn(error.what());
    }
  }

  // Every --steps steps.
  void tell_steps() {
    try {
      const std::int64_t blocks = watch::optimizer_steps_so_far(folder_->path()) / options_.steps;
      if (blocks <= blocks_told_) return;
      blocks_told_ = blocks;
      log::info(watch::watch_page(watch::summarize(watch::read_folder(folder_->path()).ranks)));
    } catch (const std::exception& error) {
      log::warn(error.what());
      blocks_told_ = std::numeric_limits<std::int64_t>::max();
    }
  }

  // If what was seen cannot be judged, the job's own exit status still goes before ours.
  int conclude(int status) {
    try {
      const ExitStatus ours = tell_and_export();
      return status != 0 ? status : static_cast<int>(ours);
    } catch (const std::exception& error) {
      if (status == 0) throw;
      log::error(error.what());
    }
    return status;
  }

  // What is exported says in any case that the job has ended.
  ExitStatus tell_and_export() {
    watch::WatchedFolder seen;
    try {
      const ExitStatus ours = tell(seen);
      exports_.finish(seen.ranks);
      return ours;
    } catch (const std::exception&) {
      finish_exports(seen);
      throw;
    }
  }

  // Finishes the exports while another error is on its way to the user; a second one is dropped.
  void finish_exports(const watch::WatchedFolder& seen) {
    try {
      exports_.finish(seen.ranks);
    } catch (const std::exception&) {
      return;
    }
  }

  ExitStatus tell(watch::WatchedFolder& seen) const {
    if (!why_not_watched_.empty()) {
      return tell_nothing(fmt::format("the job was not watched: {}", why_not_watched_));
    }
    seen = watch::read_folder(folder_->path());
    watch::add_profiled_steps(seen.ranks, folder_->path());
    for (const std::string& fault : seen.faults) {
      log::warn(fmt::format("a process is not watched: {}", fault));
    }
    if (const std::string nothing = watch::why_nothing_was_seen(seen); !nothing.empty()) {
      return tell_nothing(fmt::format("nothing was seen of the job: {}", nothing));
    }
    watch::Watched watched = watch::summarize(seen.ranks);
    watch::add_account(watched, watch::account_in({folder_->path()},
                                                  watch::seen_beside(seen.ranks, watched.kinds)));
    if (options_.account && !watched.account) {
      log::warn("no account: no step of the job's optimizers could be recorded");
    }
    const ExitStatus found = watch::gate_status(watched);
    const ExitStatus status = options_.fail_on_excess ? found : ExitStatus::Ok;
    if (!options_.quiet || found == ExitStatus::Regression || status != ExitStatus::Ok) {
      log::info(watch::watch_page(watched));
    }
    if (!options_.json.empty()) {
      results::write_atomically(options_.json, watch::watch_json(watched).dump(1) + "\n");
    }
    if (!options_.html.empty()) {
      results::write_atomically(
          options_.html,
          watch::watch_html(watched, fmt::format("{}", fmt::join(options_.command, " "))));
    }
    if (!options_.trace.empty()) {
      results::write_atomically(options_.trace, watch::watch_trace(seen.ranks).dump() + "\n");
    }
    return status;
  }

  // With --fail-on-excess, an unwatched job must not pass for a good one.
  ExitStatus tell_nothing(const std::string& why) const {
    log::warn(why);
    return options_.fail_on_excess ? ExitStatus::Unfit : ExitStatus::Ok;
  }

  const WatchOptions& options_;
  std::optional<watch::EventFolder>
      folder_;                   // absent where none could be made: then it is not watched
  std::string why_not_watched_;  // empty: it is
  std::optional<EnvironmentError> host_is_short_;
  std::int64_t blocks_told_ = 0;
  watch::Exports exports_;
  bool is_export_blamed_ = false;
};

}  // namespace

void add_watch_command(CLI::App& app, ExitStatus& status, std::vector<std::string> job) {
  CLI::App* command = app.add_subcommand("watch", "Does a training job synchronize when it should?")
                          ->group(kJobs)
                          ->footer(" -- COMMAND...");
  auto options = std::make_shared<WatchOptions>();
  options->command = std::move(job);
  command->add_option("--steps", options->steps, "Also print after every N optimizer steps")
      ->check(CLI::Range(1, 1'000'000'000));
  command->add_option("--json", options->json, "Write what was seen into this file");
  command->add_option("--html", options->html,
                      "Write a page into this file: the verdict, and what it rests on");
  command->add_option(
      "--trace", options->trace,
      fmt::format("Write the last {} steps of each rank into this file, for Perfetto",
                  watch::kMostTracedSteps));
  CLI::Option* prometheus = command->add_option(
      "--prometheus", options->exports.prometheus,
      "Keep in this file, while the job runs and when it has ended, what node_exporter's textfile "
      "collector reads: a name that ends in .prom");
  command
      ->add_option("--job", options->exports.job,
                   "Name of the job for Prometheus (its script or program)")
      ->needs(prometheus);
  command->add_option("--tensorboard", options->exports.tensorboard,
                      "Write scalars of each step into this folder, while the job runs");
  command->add_option("--steps-json", options->exports.steps_json,
                      "Append a line of JSON for each step to this file, while the job runs");
  command->add_option("--on", options->on,
                      "Run the job on GPUs that are not there, as 8xh100 or 8x79GiB: counts, bytes "
                      "and memory are real, values and times are not");
  command->add_option("--keep", options->keep,
                      "Keep the recordings of all processes in this folder");
  command->add_option("--python", options->python,
                      "The job's interpreter, where COMMAND does not show it");
  command->add_flag(
      "--seconds", options->seconds,
      "Record four steps with torch.profiler, which slows these, for what they wait for "
      "on NCCL");
  CLI::Option* account = command->add_flag("--account", options->account,
                                           "Print the weight of every micro-batch of every rank in "
                                           "the gradient that the optimizer reads");
  command
      ->add_option("--every", options->every,
                   "With --account: account the first two of every N steps; 1: all")
      ->check(CLI::Range(1, 1'000'000'000))
      ->capture_default_str()
      ->needs(account);
  command
      ->add_option("--sample", options->sample,
                   "With --account: the share of the parameters that is accounted")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str()
      ->needs(account);
  command->add_flag("--quiet", options->quiet, "Print nothing for a job without excess");
  command->add_flag(
      "--fail-on-excess", options->fail_on_excess,
      "Exit with 1 where the job succeeds but synchronizes more than it should, or its "
      "account is off, and with 4 where nothing was judged, or an account is lost");
  command->add_flag("--prepare", options->prepare,
                    "Build what a job with the torch of --python is watched with, print where it "
                    "is, run nothing");
  command->callback([options, &status] {
    if (options->prepare) {
      prepare_for(options->python);
      return;
    }
    if (options->command.empty()) {
      throw ConfigError("watch: COMMAND is missing: gradsync watch [options] -- torchrun ...");
    }
    check_paper(*options);
    check_seconds(*options);
    if (options->exports.job.empty()) options->exports.job = watch::job_name(options->command);
    status = static_cast<ExitStatus>(Watcher(*options).run());
  });
}

}  // namespace gradsync::cli
