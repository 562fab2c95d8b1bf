#include "benchmarks/commands/gate_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "harness/arms/gate_counts.h"
#include "harness/base/log.h"
#include "harness/base/words.h"
#include "harness/gate/page.h"
#include "harness/paper/standins.h"
#include "harness/results/store.h"
#include "harness/watch/tell/watched_files.h"

namespace gradsync::cli {
namespace {

namespace fs = std::filesystem;

std::string devices_text(const std::string& gpus) {
  return gpus.empty() ? "the machine's own devices" : "GPUs of paper, " + gpus;
}

// Other GPUs hold another peak, and other devices may communicate otherwise.
void require_devices_of(const gate::HeldCounts& held, const arms::GateOptions& options) {
  if (paper::are_same(held.gpus_of_paper, options.on)) return;
  throw ConfigError(fmt::format(
      "--counts {}: the file is of a job on {}, and this one is to run on {}: {}, or renew the "
      "file with --update",
      options.counts, devices_text(held.gpus_of_paper), devices_text(options.on),
      held.gpus_of_paper.empty() ? "leave out --on" : "give --on " + held.gpus_of_paper));
}

// Before the job runs: it may take hours.
gate::HeldCounts held_by(const arms::GateOptions& options) {
  const std::string& path = options.counts;
  if (!fs::exists(path)) {
    throw ConfigError(fmt::format("--counts {}: there is no such file; --update writes it", path));
  }
  gate::HeldCounts held = gate::read_held_counts(path);
  require_devices_of(held, options);
  return held;
}

void check_place_of(const std::string& path) {
  const fs::path folder = fs::absolute(path).parent_path();
  if (fs::is_directory(folder)) return;
  throw ConfigError(
      fmt::format("--counts {}: there is no folder {} to write it into", path, folder.string()));
}

void keep_what_was_seen(const arms::CountedJob& counted, const std::string& directory) {
  results::write_atomically(directory + "/" + results::kWatchedFile,
                            watch::watch_json(counted.watched).dump(1) + "\n");
  if (counted.counts.ranks.empty()) return;
  results::write_atomically(directory + "/" + results::kCountsFile,
                            gate::held_counts_text(counted.counts));
}

// Writes it to where --markdown says, if it does.
void write_comment(const arms::GateQuestion& question, const std::string& text) {
  const std::string& path = question.options.markdown;
  if (!path.empty()) results::write_atomically(path, text);
}

ExitStatus tell_failure(const arms::GateQuestion& question, const arms::CountedJob& counted) {
  const std::string& failure = counted.job.failure;
  log::error("the job " + failure);
  write_comment(question, gate::failed_markdown(joined_words(question.options.job), failure));
  return ExitStatus::Failed;
}

bool can_be_chance(const gate::HeldCounts& counts) {
  return counts.work || std::ranges::any_of(counts.ranks, [](const gate::RankCounts& group) {
           return static_cast<bool>(group.peak_allocated_bytes);
         });
}

ExitStatus write_counts(const arms::GateQuestion& question, arms::CountedJob& counted,
                        const std::string& directory) {
  const std::string& path = question.options.counts;
  if (!counted.unsteady.empty()) {
    throw EnvironmentError(counted.unsteady, "seed the job, and pad what it exchanges");
  }
  if (can_be_chance(counted.counts)) {
    arms::start_again(question, directory, counted);
    keep_what_was_seen(counted, directory);
  }
  results::write_atomically(path, gate::held_counts_text(counted.counts));
  if (watch::has_excess(counted.watched)) {
    log::warn("the file now holds a job that " +
              watch::verdict_sentence(counted.watched.verdicts.front()));
  }
  const std::string page = gate::written_text(path, counted.counts);
  if (!question.options.markdown.empty())
    results::write_atomically(question.options.markdown, page);
  std::cout << page << std::flush;
  return ExitStatus::Ok;
}

ExitStatus print(const arms::GateQuestion& question, const gate::HeldPage& page,
                 const std::string& directory) {
  const std::string gate = gate::to_json(page.report).dump(1) + "\n";
  const std::string comment = gate::held_markdown(page);
  results::write_atomically(directory + "/" + results::kGateFile, gate);
  results::write_atomically(directory + "/table.md", comment);
  write_comment(question, comment);
  const std::string& html = question.options.html;
  if (!html.empty()) results::write_atomically(html, gate::gate_html(page.report));
  std::cout << (question.options.run.json ? gate : gate::held_text(page)) << std::flush;
  return gate::exit_status_of(gate::verdict_of(page.report));
}

}  // namespace

ExitStatus hold_counts(const arms::GateQuestion& question, const std::string& directory) {
  const arms::GateOptions& options = question.options;
  gate::HeldCounts held;
  if (options.update) {
    check_place_of(options.counts);
  } else {
    held = held_by(options);
  }
  results::prepare_directory(directory, false, options.run.force);
  arms::CountedJob counted = arms::count_job(question, directory);
  keep_what_was_seen(counted, directory);
  log::info("Raw: " + directory + "/");
  const bool has_failed = !counted.job.failure.empty();
  if (has_failed && (options.update || counted.counts.ranks.empty())) {
    return tell_failure(question, counted);
  }
  if (options.update) return write_counts(question, counted, directory);
  if (!has_failed && arms::wants_second_start(held, counted)) {
    arms::start_again(question, directory, counted);
  }
  const gate::HeldPage page = arms::held_page(question, held, counted);
  const bool differs = gate::verdict_of(page.report) == gate::Verdict::Regression;
  return has_failed && !differs ? tell_failure(question, counted)
                                : print(question, page, directory);
}

}  // namespace gradsync::cli
