#include "harness/watch/tell/export/exports.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <utility>

#include "harness/base/errors.h"
#include "harness/results/store.h"
#include "harness/watch/tell/export/event_file.h"

namespace gradsync::watch {
namespace {

namespace fs = std::filesystem;

constexpr double kPeriodS = 3;
// The share of one core's time that reading may take. Larger: newer numbers of long jobs, whose
// records take long to read.
constexpr double kMostShare = 0.02;

std::string tensorboard_file(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw ResultsError(fmt::format("{}: cannot be made: {}", folder, error.message()));
  return (fs::path(folder) / event_file_name(utc_seconds())).string();
}

// Calls `open`, whose errors are the user's: the job has not begun yet.
template <typename Open>
void opening(const char* option, Open open) {
  try {
    open();
  } catch (const ResultsError& error) {
    throw ConfigError(fmt::format("{}: {}", option, error.what()));
  }
}

std::string event_record(const WatchedStep& step, double ended_s) {
  auto values = known_values(step.series);
  for (auto& [tag, value] : values) tag.insert(0, "gradsync/");
  return scalars_record(ended_s, *step.series.steps, values);
}

}  // namespace

std::string job_name(const std::vector<std::string>& command) {
  const auto script =
      std::ranges::find_if(command, [](const std::string& word) { return word.ends_with(".py"); });
  if (script != command.end()) return fs::path(*script).filename().string();
  return command.empty() ? "" : fs::path(command.front()).filename().string();
}

Exports::Exports(ExportOptions options, const Clock& clock)
    : options_(std::move(options)), clock_(clock) {
  if (options_.steps_json == "-") {
    throw ConfigError("--steps-json: got \"-\", expected a file: standard output is the job's");
  }
  open_files();
}

void Exports::open_files() {
  if (!options_.steps_json.empty()) {
    opening("--steps-json", [&] { files_.emplace_back(options_.steps_json, "", step_line); });
  }
  if (!options_.tensorboard.empty()) {
    opening("--tensorboard", [&] {
      files_.emplace_back(tensorboard_file(options_.tensorboard), first_record(utc_seconds()),
                          event_record);
    });
  }
  opening("--prometheus", [&] { write({}, true); });
}

bool Exports::are_wanted() const {
  return !files_.empty() || !options_.prometheus.empty();
}

bool Exports::are_due() const {
  return are_wanted() && clock_.now_ns() >= due_ns_;
}

void Exports::update(const std::function<std::vector<RankEvents>()>& read) {
  const std::int64_t began_ns = clock_.now_ns();
  due_ns_ = began_ns + nanoseconds(kPeriodS);
  write(steps_for_good(read()), true);
  const std::int64_t now_ns = clock_.now_ns();
  const double took_s = seconds(now_ns - began_ns);
  due_ns_ = now_ns + nanoseconds(std::max(kPeriodS, took_s / kMostShare));
}

void Exports::finish(const std::vector<RankEvents>& processes) {
  if (are_wanted()) write(processes, false);
}

// One that cannot be written does not keep the others from it.
void Exports::write(const std::vector<RankEvents>& processes, bool is_running) {
  std::exception_ptr first;
  const auto try_to = [&](const auto& write_one) {
    try {
      write_one();
    } catch (const ResultsError&) {
      if (!first) first = std::current_exception();
    }
  };
  const std::vector<WatchedStep> steps =
      files_.empty() ? std::vector<WatchedStep>{} : watched_steps(processes);
  const double since_1970_s = utc_seconds() - seconds(clock_.now_ns());
  for (StepFile& file : files_) try_to([&] { file.append(steps, since_1970_s); });
  // Last: who reads there of N steps finds their lines in the files.
  if (!options_.prometheus.empty()) {
    try_to([&] {
      results::write_atomically(options_.prometheus,
                                prometheus_text(summarize(processes), options_.job, is_running));
    });
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace gradsync::watch
