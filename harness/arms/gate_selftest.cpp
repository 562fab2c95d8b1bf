#include "harness/arms/gates.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "harness/arms/gate_arms.h"
#include "harness/arms/gate_measurement.h"
#include "harness/arms/gate_progress.h"
#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "harness/base/program_files.h"
#include "harness/base/units.h"
#include "harness/base/whole_file.h"
#include "harness/gate/traces.h"
#include "harness/launch/host.h"
#include "harness/results/store.h"
#include "harness/session/interrupt.h"

namespace gradsync::arms {
namespace {

using nlohmann::json;

double share_of(const std::string& text) {
  try {
    return parse_percent(text);
  } catch (const std::invalid_argument& error) {
    throw ConfigError(fmt::format("--extra-work: got '{}', expected {}", text, error.what()));
  }
}

std::string build_of(const GateOptions& options) {
  return options.baseline.empty() ? this_program().string() : options.baseline;
}

void require_all_rows(const GateMeasurement& measurement) {
  for (const MeasuredRow& row : measurement.rows()) {
    if (row.unfit_because.empty()) continue;
    throw EnvironmentError(row.unfit_because,
                           "a self-test needs every row: leave it out with --rows");
  }
}

std::vector<std::size_t> all_of(std::size_t count) {
  std::vector<std::size_t> list(count);
  std::iota(list.begin(), list.end(), 0);
  return list;
}

json context_of(const plan::Plan& plan, const json& build) {
  json context = launch::probe_host();
  context.update(build);
  context.update({{"plan", plan.name},
                  {"backend", plan.backend},
                  {"gloo_loop", plan.gloo_loop},
                  {"start_time", utc_timestamp()}});
  return context;
}

class SelfTest {
 public:
  SelfTest(const GateQuestion& question, const std::string& directory)
      : question_(question),
        arms_(question.options.run, {build_of(question.options), build_of(question.options)},
              &session::interrupt_flag()),
        rows_(arms_.rows(question.rows)),
        plan_(session::checked_plan(question.options.run)),
        random_(plan_.seed),
        line_(question.options.run.quiet),
        context_(context_of(plan_, arms_.of(gate::Arm::Baseline).build().written)) {
    arms_.start_control();
    const std::string time = utc_timestamp(true);
    for (const std::string& text : question.options.selftest_options.extra_work) {
      add_share(text, fmt::format("{}/extra_{}_{}{}", directory, text.substr(0, text.find('%')),
                                  time, gate::kTurnsSuffix));
    }
    check_against_earlier(directory);
  }

  // Every share once, in random order: a machine that drifts drifts for all of them.
  void take_starts(int start) {
    std::vector<std::size_t> order = all_of(shares_.size());
    for (std::size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[random_.below(i)]);
    }
    for (const std::size_t index : order) take_start(shares_[index], start);
  }

 private:
  // One share of extra work, and what was measured with it.
  struct Share {
    double extra_work = 0;
    std::string file;
    GateMeasurement measurement;
  };

  void add_share(const std::string& text, std::string file) {
    const auto tick = [this](const GateProgress& progress) { line_.show(progress); };
    shares_.push_back(
        {share_of(text), std::move(file),
         GateMeasurement(arms_, rows_, question_.settings, plan_.seed + shares_.size(), tick)});
  }

  // Where other turns lie, these must be able to stand beside them.
  void check_against_earlier(const std::string& directory) const {
    const std::vector<gate::StoredFamily> earlier = gate::read_families(directory);
    if (earlier.empty()) return;
    gate::TurnFamily next = shares_.front().measurement.family(all_of(rows_.size()));
    gate::check_alike(earlier.front(), next);
  }

  void take_start(Share& share, int start) {
    arms_.restart_candidate(share.extra_work);
    share.measurement.start(
        fmt::format("start {} of {}, {:g} % of extra work", start + 1,
                    question_.options.selftest_options.starts, 100 * share.extra_work),
        all_of(rows_.size()), question_.settings.start_turns);
    require_all_rows(share.measurement);
    gate::TurnFamily family = share.measurement.family(all_of(rows_.size()));
    family.context = context_;
    family.extra_work = share.extra_work;
    gate::round_for_storage(family);
    results::write_atomically(share.file, packed(gate::to_json(family).dump() + "\n"));
  }

  const GateQuestion& question_;
  GateArms arms_;
  std::vector<GateRow> rows_;
  plan::Plan plan_;
  stats::Random random_;
  GateProgressLine line_;
  json context_;
  std::vector<Share> shares_;
};

}  // namespace

gate::ErrorRates measure_error_rates(const GateQuestion& question, const std::string& directory) {
  SelfTest test(question, directory);
  for (int start = 0; start < question.options.selftest_options.starts; ++start) {
    test.take_starts(start);
  }
  return gate::replay_folder(directory, question.settings);
}

}  // namespace gradsync::arms
