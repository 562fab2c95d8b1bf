#include "harness/text/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/base/units.h"
#include "harness/text/labels.h"
#include "harness/text/text_width.h"

namespace gradsync::text {
namespace {

using results::Status;

constexpr const char* kEraseLine = "\r\x1b[K";
constexpr const char* kGreen = "\x1b[32m";
constexpr const char* kYellow = "\x1b[33m";
constexpr const char* kRed = "\x1b[31m";
constexpr const char* kPlain = "\x1b[0m";

bool went_wrong(Status status) {
  return status == Status::Failed || status == Status::Timeout || status == Status::Invalid;
}

const char* colour_of(Status status) {
  if (went_wrong(status)) return kRed;
  return status == Status::Ok ? kGreen : kYellow;
}

// Strategies differ in length; a column that stays put is easier on the eye.
std::size_t strategy_width(const std::vector<PlannedTrial>& plan) {
  std::size_t width = 0;
  for (const auto& trial : plan)
    width = std::max(width, display_width(strategy_label(trial.strategy)));
  return width;
}

std::string trial_text(const std::vector<PlannedTrial>& plan, std::size_t index) {
  const PlannedTrial& trial = plan[index];
  const std::string number =
      pad_left(std::to_string(index + 1), std::to_string(plan.size()).size());
  return fmt::format("[{}/{}] {} | {} | launch {}/{}", number, plan.size(), trial.topology,
                     pad_right(strategy_label(trial.strategy), strategy_width(plan)),
                     trial.launch + 1, trial.launches);
}

std::string step_time(double step_s) {
  return step_s < 0.1 ? fmt::format("{:.2f} ms/step", step_s * 1e3)
                      : fmt::format("{:.3f} s/step", step_s);
}

}  // namespace

std::string progress_line(const std::vector<PlannedTrial>& plan, const ProgressState& state,
                          std::size_t width) {
  std::string line = trial_text(plan, state.trial) +
                     fmt::format(" | step {}/{}", state.step, plan[state.trial].steps);
  if (state.step_s) line += " | " + step_time(*state.step_s);
  if (state.eta_s) line += " | eta " + format_duration(*state.eta_s);
  return truncate(line, width);
}

Progress::Progress(std::ostream& out, const Clock& clock, ProgressOptions options,
                   std::vector<PlannedTrial> plan)
    : out_(out),
      clock_(clock),
      options_(options),
      plan_(std::move(plan)),
      eta_([this] {
        std::vector<std::string> cells;
        for (const PlannedTrial& trial : plan_) cells.push_back(trial.cell);
        return cells;
      }()),
      started_ns_(clock.now_ns()),
      trial_started_ns_(started_ns_) {}

Progress::~Progress() {
  clear();
}

void Progress::begin(std::size_t trial) {
  state_ = {};
  state_.trial = trial;
  trial_started_ns_ = clock_.now_ns();
  update(0);
}

void Progress::update(int step) {
  if (!options_.terminal || options_.quiet || state_.trial >= plan_.size()) return;
  const double spent_s = seconds(clock_.now_ns() - trial_started_ns_);
  if (step > state_.step) state_.step_s = spent_s / step;
  state_.step = step;
  state_.eta_s = eta_.remaining_s(state_.trial, spent_s, seconds(clock_.now_ns() - started_ns_));
  // A line as wide as the terminal leaves the cursor on the next one; stay one column short of
  // that.
  show(progress_line(plan_, state_, options_.width - 1));
}

void Progress::finish(Status status, const std::string& reason, std::optional<double> step_s) {
  if (state_.trial >= plan_.size()) return;
  if (status == Status::Ok) {
    eta_.finished(state_.trial, seconds(clock_.now_ns() - trial_started_ns_));
  }
  const bool worth_a_line = went_wrong(status) || (!options_.terminal && !options_.quiet);
  if (worth_a_line) print_finished(status, reason, step_s);
}

void Progress::print_finished(Status status, const std::string& reason,
                              std::optional<double> step_s) {
  clear();
  std::string word = results::to_string(status);
  if (went_wrong(status)) {
    std::transform(word.begin(), word.end(), word.begin(),
                   [](unsigned char c) { return std::toupper(c); });
  }
  if (options_.colour) word = colour_of(status) + word + kPlain;
  std::string line = trial_text(plan_, state_.trial) + " | " + word;
  if (!reason.empty()) line += " " + reason;
  if (went_wrong(status) && state_.trial + 1 < plan_.size()) line += " (continuing)";
  if (step_s) line += " | " + step_time(*step_s);
  out_ << line << "\n" << std::flush;
}

void Progress::show(const std::string& line) {
  if (line == shown_) return;
  out_ << kEraseLine << line << std::flush;
  shown_ = line;
}

void Progress::clear() {
  if (shown_.empty()) return;
  out_ << kEraseLine << std::flush;
  shown_.clear();
}

}  // namespace gradsync::text
