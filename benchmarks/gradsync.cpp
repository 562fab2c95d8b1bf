// gradsync: measures what gradient synchronization costs, and proves whether a job synchronizes
// when it should. This file only parses and turns exceptions into the exit statuses of the design.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <string_view>

#include "benchmarks/commands/commands.h"
#include "benchmarks/manual/help_screen.h"
#include "harness/base/build_info.h"
#include "harness/base/log.h"
#include "harness/base/program_files.h"
#include "harness/session/exit_status.h"

namespace gradsync::cli {
namespace {

// The torch of a checkout's build is that of its ranks; an installed program has ranks for many.
std::string version_text() {
  const BuildInfo& build = build_info();
  const std::string torch = is_installed() ? "" : fmt::format("torch {}, ", build.torch_version);
  return fmt::format("gradsync {} ({} {}) {}{}", build.version, build.commit, build.build_type,
                     torch, build.compiler);
}

// Takes the job of `gradsync watch`, `gate`, `equal`, `search` or `predict` off the command line:
// CLI11 would take its words apart, "[a,b]" into two.
std::vector<std::string> take_job(int& argc, char** argv) {
  char** const end = argv + argc;
  if (argc < 2) return {};
  const std::string_view command = argv[1];
  constexpr std::array kOfJobs = {"watch", "gate", "equal", "search", "predict"};
  if (std::ranges::find(kOfJobs, command) == kOfJobs.end()) return {};
  char** const mark = std::find(argv, end, std::string_view("--"));
  if (mark == end) return {};
  argc = static_cast<int>(mark - argv);
  return {mark + 1, end};
}

int parse_and_run(int argc, char** argv) {
  ExitStatus status = ExitStatus::Ok;
  CLI::App app("Measures what gradient synchronization costs distributed training.", "gradsync");
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return fmt::format("error: {} (see gradsync --help)\n", error.what());
  });
  const std::vector<std::string> job = take_job(argc, argv);
  app.formatter(std::make_shared<HelpFormatter>());
  add_watch_command(app, status, job);
  add_judge_command(app, status);
  add_gate_command(app, status, job);
  add_equal_command(app, status, job);
  add_demo_command(app, status);
  add_run_command(app, status);
  add_search_command(app, status, job);
  add_report_command(app, status);
  add_predict_command(app, status, job);
  add_advise_command(app);
  add_doctor_command(app, status);
  add_list_command(app, status);
  add_completion_command(app);
  add_man_command(app);
  add_arm_command(app, status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitStatus::Config);
  }
  return static_cast<int>(status);
}

// Runs `body`; what it throws is printed as one line and becomes the exit status.
template <typename Body>
int with_exit_status(Body body) {
  try {
    return body();
  } catch (const std::exception& error) {
    log::error(error.what());
    return static_cast<int>(session::exit_status_of(error));
  }
}

}  // namespace
}  // namespace gradsync::cli

int main(int argc, char** argv) {
  using namespace gradsync;  // NOLINT(google-build-using-namespace): main is the program's top
  log::configure(false);
  return cli::with_exit_status([&] { return cli::parse_and_run(argc, argv); });
}
