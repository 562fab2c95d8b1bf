// gradsync: measures what gradient synchronization costs, and proves whether a job synchronizes
// when it should. This file only parses and turns exceptions into the exit statuses of the design.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/commands/commands.h"
#include "benchmarks/commands/gate_spelling.h"
#include "benchmarks/manual/help_screen.h"
#include "benchmarks/manual/wrong_call.h"
#include "harness/base/build_info.h"
#include "harness/base/log.h"
#include "harness/base/program_files.h"
#include "harness/base/words.h"
#include "harness/session/exit_status.h"

namespace gradsync::cli {
namespace {

using Words = std::vector<std::string>;

// The torch of a checkout's build is that of its ranks; an installed program has ranks for many.
std::string version_text() {
  const BuildInfo& build = build_info();
  const std::string torch = is_installed() ? "" : fmt::format("torch {}, ", build.torch_version);
  return fmt::format("gradsync {} ({} {}) {}{}", build.version, build.commit, build.build_type,
                     torch, build.compiler);
}

// Takes the job of `gradsync watch`, `gate`, `equal`, `search` or `predict` off the command line:
// CLI11 would split its words: "[a,b]" into two.
Words take_job(Words& words) {
  constexpr std::array kOfJobs = {"watch", "gate", "equal", "search", "predict"};
  if (words.empty() || std::ranges::find(kOfJobs, words.front()) == kOfJobs.end()) return {};
  const auto mark = std::ranges::find(words, "--");
  if (mark == words.end()) return {};
  Words job(mark + 1, words.end());
  words.erase(mark, words.end());
  return job;
}

void respell_gate(const CLI::App& gate, Words& words, const Words& job) {
  if (words.empty() || words.front() != gate.get_name()) return;
  const std::optional<Words> now = respelled_gate(page_of(gate), words);
  if (!now) return;
  log::configure(std::ranges::find(words, "--quiet") != words.end());
  log::info(fmt::format("this is now spelled: gradsync {}{}", joined_words(*now),
                        job.empty() ? "" : " -- " + joined_words(job)));
  words = *now;
}

int parse_and_run(Words words) {
  ExitStatus status = ExitStatus::Ok;
  CLI::App app("Measures what gradient synchronization costs distributed training.", "gradsync");
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);
  const Words job = take_job(words);
  app.failure_message([&words](const CLI::App* program, const CLI::Error& error) {
    return fmt::format("error: {}\n", wrong_call(page_of(*program), words, error.what()));
  });
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
  respell_gate(*app.get_subcommand("gate"), words, job);
  try {
    app.parse(Words(words.rbegin(), words.rend()));  // CLI11 takes them off the end
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
  return cli::with_exit_status([&] { return cli::parse_and_run({argv + 1, argv + argc}); });
}
