// gradsync judge: the verdict of gradsync watch, from files that others wrote of a job.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>
#include <memory>

#include "benchmarks/commands/commands.h"
#include "harness/results/store.h"
#include "harness/watch/judge/watched.h"
#include "harness/watch/read/foreign/kineto.h"
#include "harness/watch/tell/pages.h"
#include "harness/watch/tell/watched_files.h"

namespace gradsync::cli {
namespace {

struct JudgeOptions {
  std::vector<std::string> files;
  std::string json;
  std::string html;
  bool quiet = false;
  bool fail_on_excess = false;
};

ExitStatus judge(const JudgeOptions& options) {
  const watch::Watched watched = watch::summarize(watch::read_foreign_job(options.files));
  if (!options.json.empty()) {
    results::write_atomically(options.json, watch::watch_json(watched).dump(1) + "\n");
  }
  if (!options.html.empty()) {
    results::write_atomically(
        options.html, watch::watch_html(watched, fmt::format("{}", fmt::join(options.files, " "))));
  }
  const ExitStatus status = watch::gate_status(watched);
  if (!options.quiet || status != ExitStatus::Ok) {
    std::cout << watch::watch_page(watched) << std::flush;
  }
  return options.fail_on_excess ? status : ExitStatus::Ok;
}

}  // namespace

void add_judge_command(CLI::App& app, ExitStatus& status) {
  CLI::App* command =
      app.add_subcommand("judge", "The same, from traces of torch.profiler and others")
          ->group(kJobs);
  auto options = std::make_shared<JudgeOptions>();
  command
      ->add_option("FILE", options->files,
                   "A trace that torch.profiler exported, as it is or packed by gzip: one of each "
                   "rank")
      ->required();
  command->add_option("--json", options->json, "Write what was seen into this file");
  command->add_option("--html", options->html,
                      "Write a page into this file: the verdict, and what it rests on");
  command->add_flag("--quiet", options->quiet, "Print nothing for a job without excess");
  command->add_flag("--fail-on-excess", options->fail_on_excess,
                    "Exit with 1 where the job synchronizes more than it should, with 4 where "
                    "nothing was judged");
  command->callback([options, &status] { status = judge(*options); });
}

}  // namespace gradsync::cli
