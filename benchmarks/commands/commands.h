// The sub-commands of `gradsync`, one file each.
//
// add_*_command registers one with the parser. The command sets `status` when it runs, and throws
// the types of base/errors.h, which main turns into exit statuses.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "harness/base/errors.h"

namespace gradsync::cli {

// The groups in which `gradsync --help` lists them.
inline constexpr const char* kJobs = "Your training job";
inline constexpr const char* kRuns = "What synchronization costs";
inline constexpr const char* kProgram = "This machine and this program";

void add_run_command(CLI::App& app, ExitStatus& status);
// `job`, here and below: the words behind the "--" of the command line, the training command. They
// are not options of gradsync.
void add_search_command(CLI::App& app, ExitStatus& status, const std::vector<std::string>& job);
void add_equal_command(CLI::App& app, ExitStatus& status, std::vector<std::string> job);
void add_gate_command(CLI::App& app, ExitStatus& status, const std::vector<std::string>& job);
void add_report_command(CLI::App& app, ExitStatus& status);
void add_doctor_command(CLI::App& app, ExitStatus& status);
void add_list_command(CLI::App& app, ExitStatus& status);
void add_advise_command(CLI::App& app);
void add_predict_command(CLI::App& app, ExitStatus& status, std::vector<std::string> job);
void add_predict_step_command(CLI::App& predict);  // sub-commands of predict
void add_predict_links_command(CLI::App& predict);
void add_watch_command(CLI::App& app, ExitStatus& status, std::vector<std::string> job);
void add_judge_command(CLI::App& app, ExitStatus& status);
void add_demo_command(CLI::App& app, ExitStatus& status);
void add_completion_command(CLI::App& app);
void add_man_command(CLI::App& app);
void add_arm_command(CLI::App& app, ExitStatus& status);  // for a gate, not for people

}  // namespace gradsync::cli
