// What `gradsync gate` was asked: which builds, training commands or results, which rows, and what
// counts as slower.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "harness/gate/gate_file.h"
#include "harness/gate/settings.h"
#include "harness/session/run_options.h"

namespace gradsync::arms {

struct SelfTestOptions {
  std::vector<std::string> extra_work = {"0%", "1%", "2%", "3%", "5%", "10%"};
  int starts = 25;  // of each: one gate, fifteen for its looks and ten to confirm
};

// The four questions, each a command of its own: `gradsync gate builds`.
enum class GateForm { Builds, Commands, Counts, SelfTest };

// As on the command line; "": not given.
struct GateOptions {
  GateForm form = GateForm::Builds;
  session::RunOptions run;  // the plan with its overrides, --out, --json, --quiet
  std::string gates;
  std::string baseline;
  std::string candidate;
  std::string python;  // of training commands
  std::string against;
  std::string results;
  std::string counts;            // Counts: the file that a training command is held against
  bool update = false;           // it is written instead
  std::string on;                // GPUs of paper that it has; "": the machine's own devices
  std::vector<std::string> job;  // that command, word by word
  std::vector<std::string> rows;
  std::string margin;
  std::string smallest_effect;
  std::string mean_smallest_effect;
  std::string alpha;
  std::string time_budget;
  std::string length;  // Builds: --form, "short" or "long"
  std::string markdown;
  std::string html;
  bool counts_only = false;
  SelfTestOptions selftest_options;
  std::string replay;
};

// The thing that the candidate is compared with.
enum class GateKind {
  Builds,    // another build, in turns
  Jobs,      // another training command, in turns
  Counts,    // the counts of a training command that are checked in
  Against,   // a stored run of another build
  Claims,    // fixed claims alone, of a fresh run
  Results,   // fixed claims alone, of a stored run
  SelfTest,  // a build against itself, with known work added: the gate's own error rates
  Replay,    // the same from stored turns
};

inline constexpr std::size_t kAllRows = std::numeric_limits<std::size_t>::max();

struct GateQuestion {
  GateOptions options;  // options.run has the plan and the overrides of a gate file, too
  GateKind kind = GateKind::Builds;
  std::optional<gate::GateFile> file;
  gate::Settings settings;
  std::vector<gate::RowFilter> rows;    // none: all
  std::optional<double> time_budget_s;  // absent: what the plan needs
  std::size_t timed_rows = kAllRows;    // at most so many have times; they stand for all
};

// Whether `text` names a build, and not a command that happens to end with one's name.
bool names_build(const std::string& text);

// Returns the question that the options ask; the command line goes before a gate file.
// Errors: ConfigError where they ask none, or two at once.
GateQuestion read_gate_question(const GateOptions& options);

}  // namespace gradsync::arms
