#include "harness/arms/gate_question.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "harness/base/errors.h"
#include "harness/base/program_files.h"
#include "harness/base/units.h"
#include "harness/paper/standins.h"
#include "harness/plan/cell.h"
#include "harness/session/paths.h"

namespace gradsync::arms {
namespace {

namespace fs = std::filesystem;

// Sixteen rows with steps of about 10 ms on two cores.
constexpr const char* kSelfTestPlan = "gate";

// A form of the gate of builds.
struct Form {
  const char* name;
  double time_budget_s;  // counts and times together
  std::size_t timed_rows;
  gate::Settings (*settings)();
};
constexpr std::array kForms = {Form{"short", 180, 4, gate::short_form},
                               Form{"long", 600, kAllRows, [] { return gate::Settings{}; }}};

// Puts what `text` says into `value`, where there is a text.
template <typename Parse>
void read_into(double& value, const std::string& text, const char* option, Parse parse) {
  if (text.empty()) return;
  try {
    value = parse(text);
  } catch (const std::invalid_argument& error) {
    throw ConfigError(fmt::format("{}: got '{}', expected {}", option, text, error.what()));
  }
}

void refuse(bool unwanted, const char* what) {
  if (unwanted) throw ConfigError(what);
}

// `settings`: as the form has them.
gate::Settings settings_of(gate::Settings settings, const GateOptions& options,
                           const std::optional<gate::GateFile>& file) {
  if (file) {
    settings.margin = file->margin.value_or(settings.margin);
    settings.smallest_effect = file->smallest_effect.value_or(settings.smallest_effect);
    settings.alpha = file->alpha.value_or(settings.alpha);
  }
  read_into(settings.margin, options.margin, "--margin", parse_percent);
  read_into(settings.smallest_effect, options.smallest_effect, "--smallest-effect", parse_percent);
  settings.mean_smallest_effect = gate::kMeanToSmallestEffect * settings.smallest_effect;
  read_into(settings.mean_smallest_effect, options.mean_smallest_effect, "--mean-smallest-effect",
            parse_percent);
  read_into(settings.alpha, options.alpha, "--alpha", parse_percent);
  gate::validate(settings, "gate");
  return settings;
}

// Sets what the form says, unless the command line says otherwise.
void use_form(GateQuestion& question) {
  const std::string& name = question.options.length;
  if (name.empty()) return;
  const auto* form = std::ranges::find(kForms, name, &Form::name);
  if (form == kForms.end()) {
    throw ConfigError(fmt::format("--form: got '{}', expected short or long", name));
  }
  refuse(question.kind != GateKind::Builds,
         "--form needs --baseline BUILD: only turns have a form");
  refuse(question.options.counts_only, "--form: got --counts-only, which measures no times");
  question.time_budget_s = form->time_budget_s;
  question.timed_rows = form->timed_rows;
  question.settings = form->settings();
}

std::vector<gate::RowFilter> filters_of(const GateOptions& options,
                                        const std::optional<gate::GateFile>& file) {
  std::vector<gate::RowFilter> filters;
  for (const std::string& text : options.rows) filters.emplace_back(text);
  if (filters.empty() && file) filters = file->rows;
  return filters;
}

bool is_path(const std::string& text) {
  std::error_code too_long;
  return text.find_first_of(" \t\n") == std::string::npos || fs::exists(text, too_long);
}

struct Side {
  const char* option;
  const std::string& text;
};

std::array<Side, 2> sides_of(const GateOptions& options) {
  return {Side{"--baseline", options.baseline}, Side{"--candidate", options.candidate}};
}

GateKind kind_of_builds(const GateOptions& options) {
  for (const auto& [option, text] : sides_of(options)) {
    if (is_path(text)) continue;
    throw ConfigError(fmt::format(
        "{}: got the command '{}', expected a build: gradsync gate commands compares two commands",
        option, text));
  }
  const bool builds = !options.baseline.empty();
  const bool against = !options.against.empty();
  const bool results = !options.results.empty();
  refuse(int{builds} + int{against} + int{results} > 1,
         "--baseline, --against and --results: give one, what the candidate is held against");
  refuse(builds && options.candidate.empty(), "--baseline needs --candidate BUILD");
  refuse(!builds && !against && !options.candidate.empty() && options.gates.empty(),
         "--candidate needs --baseline BUILD or --against DIR");
  refuse(results && options.gates.empty(), "--results needs --gates NAME, whose claims are judged");
  refuse(results && !options.run.plan.empty(), "--results: got a PLAN, too; the run is over");
  if (builds) return GateKind::Builds;
  if (against) return GateKind::Against;
  refuse(options.gates.empty(),
         "nothing to compare: give --baseline BUILD --candidate BUILD, --against DIR, or --gates "
         "NAME");
  return results ? GateKind::Results : GateKind::Claims;
}

GateKind kind_of_commands(const GateOptions& options) {
  for (const auto& [option, text] : sides_of(options)) {
    if (!names_build(text)) continue;
    throw ConfigError(fmt::format(
        "{}: got the build '{}', expected a training command: gradsync gate builds PLAN compares "
        "two builds",
        option, text));
  }
  return GateKind::Jobs;
}

GateKind kind_of_counts(const GateOptions& options) {
  refuse(options.job.empty(), "COMMAND is missing: gradsync gate counts FILE -- torchrun ...");
  refuse(options.update && !options.html.empty(),
         "--update: got --html, a page on what differs: expected one of them");
  if (!options.on.empty()) paper::require_gpus(options.on);
  return GateKind::Counts;
}

GateKind kind_of(const GateOptions& options) {
  refuse(!options.job.empty() && options.form != GateForm::Counts,
         "got a command behind \"--\": gradsync gate counts FILE -- COMMAND holds it against a "
         "file");
  switch (options.form) {
    case GateForm::Builds:
      return kind_of_builds(options);
    case GateForm::Commands:
      return kind_of_commands(options);
    case GateForm::Counts:
      return kind_of_counts(options);
    case GateForm::SelfTest:
      break;
  }
  return options.replay.empty() ? GateKind::SelfTest : GateKind::Replay;
}

}  // namespace

bool names_build(const std::string& text) {
  std::error_code too_long;
  return fs::is_directory(text, too_long) ||
         (fs::path(text).filename() == "gradsync" && is_path(text));
}

GateQuestion read_gate_question(const GateOptions& options) {
  GateQuestion question;
  question.options = options;
  question.kind = kind_of(options);
  if (!options.gates.empty()) {
    question.file =
        gate::read_gate_file(find_json_file("gate", options.gates, session::gates_directory()));
    session::RunOptions& run = question.options.run;
    if (run.plan.empty()) run.plan = question.file->plan;
    run.overrides.insert(run.overrides.begin(), question.file->overrides.begin(),
                         question.file->overrides.end());
  }
  const bool has_stored_plan = question.kind == GateKind::Results ||
                               question.kind == GateKind::Against ||
                               question.kind == GateKind::Replay;
  const bool is_of_commands = question.kind == GateKind::Jobs || question.kind == GateKind::Counts;
  const bool needs_plan = !has_stored_plan && !is_of_commands;
  if (question.kind == GateKind::SelfTest && question.options.run.plan.empty()) {
    question.options.run.plan = kSelfTestPlan;
  }
  refuse(needs_plan && question.options.run.plan.empty(),
         "PLAN is missing: which rows are to be compared?");
  use_form(question);
  question.settings = settings_of(question.settings, options, question.file);
  question.rows = filters_of(options, question.file);
  if (!options.time_budget.empty()) {
    question.time_budget_s.emplace();
    read_into(*question.time_budget_s, options.time_budget, "--time-budget", parse_duration_s);
  }
  return question;
}

}  // namespace gradsync::arms
