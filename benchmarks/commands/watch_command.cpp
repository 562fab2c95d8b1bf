// gradsync watch: does a training job synchronize when it should, and what does that cost it?
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>

#include "benchmarks/commands/commands.h"
#include "harness/base/build_info.h"
#include "harness/base/log.h"
#include "harness/results/store.h"
#include "harness/watch/environment.h"
#include "harness/watch/events/read_events.h"
#include "harness/watch/job_torch.h"
#include "harness/watch/trace.h"
#include "harness/watch/watched.h"
#include "harness/watch/watched_job.h"

namespace gradsync::cli {
namespace {

namespace fs = std::filesystem;

struct WatchOptions {
  std::vector<std::string> command;
  std::string python;
  std::string json;
  std::string trace;
  std::string keep;
  int steps = 0;  // 0: at the end alone
  bool quiet = false;
  bool fail_on_excess = false;
  bool prepare = false;
};

// What a process of a job with that torch is watched with, built where it never was before.
void prepare_for(const std::string& python) {
  if (watch::preload_cache().empty()) {
    throw EnvironmentError("there is no folder to keep the watcher in", "set XDG_CACHE_HOME");
  }
  const watch::JobTorch torch = watch::find_job_torch({}, python);
  const watch::PreloadLibrary library = watch::library_for(torch, "");
  const nlohmann::json paths{{"torch", watch::torch_library(torch)},
                             {"loader", library.loader},
                             {"watcher", library.watcher},
                             {"hook", watch::hook_directory(build_info().source_dir)}};
  std::cout << paths.dump(1) << "\n";
}

// Why there is nothing to tell; "" where there is.
std::string why_nothing_was_seen(const watch::WatchedFolder& folder) {
  if (!folder.ranks.empty()) return "";
  if (!folder.reached) {
    return "LD_PRELOAD reached none of its processes: its launcher clears the environment, or it "
           "is linked statically";
  }
  if (folder.torch_processes == 0) {
    return "no process that LD_PRELOAD reached used libtorch_cpu.so: a launcher may have taken "
           "LD_PRELOAD away, or torch is linked statically";
  }
  return "torch was loaded, but no model wrapped, nothing communicated and no optimizer stepped";
}

class Watcher {
 public:
  explicit Watcher(const WatchOptions& options) : options_(options) {}

  // Returns the exit status: that of the job, unless it succeeded and there is something to say
  // against it.
  int run() {
    const watch::EnvironmentChanges changes = prepare();
    const int status = watch::run_watched_job(options_.command, changes, [&] { look(); });
    return conclude(status);
  }

 private:
  // Returns what the job's environment needs. Whatever is missing for that, the job runs all the
  // same.
  watch::EnvironmentChanges prepare() {
    try {
      folder_.emplace(options_.keep);
      const watch::JobTorch torch = watch::find_job_torch(options_.command, options_.python);
      return watch::watching(torch, watch::library_for(torch, folder_->path()),
                             build_info().source_dir, folder_->path());
    } catch (const EnvironmentError& error) {
      why_not_watched_ = error.what();
    } catch (const fs::filesystem_error& error) {
      why_not_watched_ = error.what();
    }
    return {};
  }

  // Every --steps steps, what was seen so far. The job does not wait for it.
  void look() {
    if (options_.steps == 0 || !why_not_watched_.empty()) return;
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

  // Whatever is wrong with what was seen, the job's own status goes before ours.
  int conclude(int status) const {
    try {
      const ExitStatus ours = tell();
      return status != 0 ? status : static_cast<int>(ours);
    } catch (const std::exception& error) {
      if (status == 0) throw;
      log::error(error.what());
    }
    return status;
  }

  ExitStatus tell() const {
    if (!why_not_watched_.empty()) {
      return tell_nothing(fmt::format("the job was not watched: {}", why_not_watched_));
    }
    const watch::WatchedFolder seen = watch::read_folder(folder_->path());
    for (const std::string& fault : seen.faults) {
      log::warn(fmt::format("a process is not watched: {}", fault));
    }
    if (const std::string nothing = why_nothing_was_seen(seen); !nothing.empty()) {
      return tell_nothing(fmt::format("nothing was seen of the job: {}", nothing));
    }
    const watch::Watched watched = watch::summarize(seen.ranks);
    const bool is_excessive = watch::has_excess(watched);
    if (!options_.quiet || is_excessive) log::info(watch::watch_page(watched));
    if (!options_.json.empty()) {
      results::write_atomically(options_.json, watch::watch_json(watched).dump(1) + "\n");
    }
    if (!options_.trace.empty()) {
      results::write_atomically(options_.trace, watch::watch_trace(seen.ranks).dump() + "\n");
    }
    return options_.fail_on_excess && is_excessive ? ExitStatus::Regression : ExitStatus::Ok;
  }

  // Who wants to fail on excess must not take an unwatched job for a good one.
  ExitStatus tell_nothing(const std::string& why) const {
    log::warn(why);
    return options_.fail_on_excess ? ExitStatus::Unfit : ExitStatus::Ok;
  }

  const WatchOptions& options_;
  std::optional<watch::EventFolder>
      folder_;                   // absent where none could be made: then it is not watched
  std::string why_not_watched_;  // empty: it is
  std::int64_t blocks_told_ = 0;
};

}  // namespace

void add_watch_command(CLI::App& app, ExitStatus& status, std::vector<std::string> job) {
  CLI::App* command = app.add_subcommand(
      "watch",
      "Does a training job synchronize when it should? gradsync watch [options] -- COMMAND...");
  auto options = std::make_shared<WatchOptions>();
  options->command = std::move(job);
  command->add_option("--steps", options->steps, "Print every that many optimizer steps too")
      ->check(CLI::Range(1, 1'000'000'000));
  command->add_option("--json", options->json, "Write what was seen into this file");
  command->add_option(
      "--trace", options->trace,
      fmt::format("Write the last {} steps of each rank into this file, for Perfetto",
                  watch::kMostTracedSteps));
  command->add_option("--keep", options->keep, "Keep there what each process of the job recorded");
  command->add_option("--python", options->python,
                      "The job's interpreter, where COMMAND does not show it");
  command->add_flag("--quiet", options->quiet, "Say nothing of a job without excess");
  command->add_flag("--fail-on-excess", options->fail_on_excess,
                    "Exit with 1 where the job succeeds but synchronizes more than it should");
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
    status = static_cast<ExitStatus>(Watcher(*options).run());
  });
}

}  // namespace gradsync::cli
