#include "benchmarks/gate_selftest.h"

#include <fmt/format.h>

#include <numeric>
#include <stdexcept>

#include "benchmarks/gate_measurement.h"
#include "benchmarks/gate_progress.h"
#include "benchmarks/interrupt.h"
#include "benchmarks/paths.h"
#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "harness/base/units.h"
#include "harness/gate/traces.h"
#include "harness/launch/host.h"
#include "harness/results/store.h"

namespace gradsync::cli {
namespace {

using nlohmann::json;

double share_of(const std::string& text) {
  try {
    return parse_percent(text);
  } catch (const std::invalid_argument& error) {
    throw ConfigError(fmt::format("--extra-work: got '{}', expected {}", text, error.what()));
  }
}

// What the turns depend on, as far as it can be read here.
json context_of(const GateArms& arms) {
  return {{"start_time", utc_timestamp()},
          {"host", launch::probe_host()},
          {"build", arms.of(gate::Arm::Baseline).build()}};
}

// One share of extra work and what was measured with it.
struct Share {
  double extra_work = 0;
  std::string file;
  GateMeasurement measurement;
};

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

}  // namespace

gate::ErrorRates measure_error_rates(const GateQuestion& question, const std::string& directory) {
  const SelfTestOptions& options = question.options.selftest_options;
  const std::string build =
      question.options.baseline.empty() ? rank_command().front() : question.options.baseline;
  GateArms arms(question.options.run, {build, build, 0}, &interrupt_flag());
  arms.start_control();
  GateProgressLine line(question.options.run.quiet, 0);
  const auto tick = [&](const GateProgress& progress) { line.show(progress); };
  const plan::Plan plan = checked_plan(question.options.run);
  const std::vector<GateRow> rows = arms.rows(question.rows);
  const json context = context_of(arms);
  const std::string stamp = utc_timestamp(true);
  std::vector<Share> shares;
  for (const std::string& text : options.extra_work) {
    const std::string file = fmt::format("{}/extra_{}_{}{}", directory,
                                         text.substr(0, text.find('%')), stamp, gate::kTurnsSuffix);
    const std::uint64_t seed = plan.seed + shares.size();
    shares.push_back(
        {share_of(text), file, GateMeasurement(arms, rows, question.settings, seed, tick)});
  }
  stats::Random random(plan.seed);
  for (int start = 0; start < options.starts; ++start) {
    std::vector<std::size_t> order = all_of(shares.size());
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    for (const std::size_t index : order) {
      Share& share = shares[index];
      arms.restart_candidate(share.extra_work);
      share.measurement.start(fmt::format("start {} of {}, {:g} % of extra work", start + 1,
                                          options.starts, 100 * share.extra_work),
                              all_of(rows.size()), question.settings.start_turns);
      require_all_rows(share.measurement);
      gate::TurnFamily family = share.measurement.family(all_of(rows.size()));
      family.context = context;
      family.extra_work = share.extra_work;
      gate::round_for_storage(family);
      results::write_atomically(share.file, gate::to_json(family).dump() + "\n");
    }
  }
  return gate::replay_folder(directory, question.settings);
}

}  // namespace gradsync::cli
