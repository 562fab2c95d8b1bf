#include "harness/arms/gate_counts.h"

#include <fmt/format.h>

#include <cstdlib>
#include <set>
#include <utility>

#include "harness/base/build_info.h"
#include "harness/base/errors.h"
#include "harness/base/words.h"
#include "harness/coordinate/watched_group.h"
#include "harness/results/store.h"
#include "harness/session/interrupt.h"
#include "harness/watch/environment.h"
#include "harness/watch/steps/usual_counts.h"

namespace gradsync::arms {
namespace {

using gate::CountDifference;

constexpr const char* kCountsPlan = "counts";

// Of a job whose steps vary these may be chance; how often it synchronizes is not.
bool may_be_chance(const CountDifference& difference) {
  static const std::set<std::string> kinds{"events", "collectives", "peak_allocated_bytes"};
  return kinds.contains(difference.what);
}

// Who sets a port means it: peers on other hosts may wait there.
watch::EnvironmentChanges port_if_none() {
  return std::getenv("MASTER_PORT") == nullptr ? watch::own_port() : watch::EnvironmentChanges{};
}

gate::Side side_of(const CountedJob& counted, const std::string& command) {
  results::Context context;
  context.gradsync = build_info().version;
  context.commit = build_info().commit;
  context.torch = counted.job.torch;
  context.world_size = counted.counts.world_size;
  return {command, context};
}

gate::RowCounts row_counts(const gate::HeldCounts& held, const CountedJob& counted,
                           std::vector<std::string>& notes) {
  gate::HeldDifferences found = gate::held_differences(held, counted.counts);
  notes = std::move(found.notes);
  gate::RowCounts row{std::move(found.differences), ""};
  if (!counted.unsteady.empty()) {
    std::erase_if(row.differences, may_be_chance);
    row.unfit_because = counted.unsteady + ": seed the job, and pad what it exchanges";
  }
  const std::string words = watch::verdict_sentence(counted.watched.verdicts.front());
  if (!row.differences.empty()) {
    row.differences.insert(row.differences.begin(), {"verdict", "the job " + words});
  } else if (watch::has_excess(counted.watched)) {
    notes.push_back("as in the file, the job " + words);
  }
  return row;
}

}  // namespace

CountedJob count_job(const GateQuestion& question, const std::string& directory) {
  const GateOptions& options = question.options;
  CountedJob counted;
  counted.job = watch::run_whole_job({.command = options.job,
                                      .python = options.python,
                                      .more = port_if_none(),
                                      .log = directory + "/" + results::kJobOutput,
                                      .shows_output = !options.run.quiet,
                                      .budget_s = question.time_budget_s},
                                     [] {
                                       if (session::interrupt_flag()) {
                                         throw coordinate::Interrupted();
                                       }
                                     });
  watch::UsualCounts usual = watch::usual_counts(counted.job.folder.ranks);
  counted.watched = watch::summarize(counted.job.folder.ranks);
  counted.counts = std::move(usual.counts);
  counted.unsteady = std::move(usual.unsteady);
  if (counted.counts.ranks.empty() && counted.job.failure.empty()) {
    throw EnvironmentError(
        fmt::format("the job {}without an optimizer step that could be seen: {}",
                    counted.job.was_ended ? "was ended by --time-budget " : "ended ",
                    watch::why_no_step(counted.job)),
        "`gradsync watch -- COMMAND` says more");
  }
  return counted;
}

gate::HeldPage held_page(const GateQuestion& question, const gate::HeldCounts& held,
                         const CountedJob& counted) {
  gate::HeldPage page;
  page.file = question.options.counts;
  page.command = joined_words(question.options.job);
  page.held = held;
  page.seen = counted.counts;
  page.report.plan = kCountsPlan;
  page.report.baseline.name = page.file;
  page.report.candidate = side_of(counted, page.command);
  gate::RowReport row;
  row.row.cell = results::Parameters::of_a_job();
  row.counts = row_counts(held, counted, page.report.notes);
  row.no_times_because = "a file of counts has none";
  page.report.rows = {std::move(row)};
  if (!counted.job.failure.empty()) page.report.notes.push_back("the job " + counted.job.failure);
  for (const std::string& fault : counted.watched.faults) page.report.notes.push_back(fault);
  return page;
}

}  // namespace gradsync::arms
