#include "harness/report/formats.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>

#include "harness/stats/sample.h"
#include "harness/summary/part_view.h"
#include "harness/summary/plan_source.h"

namespace gradsync::report {

using nlohmann::json;
using results::CellResult;
using results::TrialRecord;
using summary::CellView;

namespace {

json benchmark_context(const results::Context& context) {
  json out = {{"date", context.start_time.value_or("")},
              {"host_name", context.host.value_or("")},
              {"executable", "gradsync"},
              {"num_cpus", context.cpus_usable},
              {"caches", json::array()},
              {"library_build_type", context.timing_valid ? "release" : "debug"},
              {"cpu_time", "not measured; repeats real_time"}};
  const std::pair<const char*, const std::optional<std::string>&> versions[] = {
      {"gradsync", context.gradsync},
      {"commit", context.commit},
      {"build_type", context.build_type},
      {"torch", context.torch},
      {"backend", context.backend}};
  for (const auto& [name, value] : versions) {
    if (value) out[name] = *value;
  }
  return out;
}

std::string run_name(const std::string& plan, const CellView& cell) {
  std::string name = plan;
  if (!cell.part.empty()) name += fmt::format("/{}", cell.part);
  name += fmt::format("/{}", cell.cell.topology());
  for (const auto& [parameter, text] : cell.name.varying) {
    name += fmt::format("/{}:{}", parameter, text);
  }
  return fmt::format("{}/{}", name, cell.cell.strategy());
}

std::vector<double> steps_of(const std::vector<TrialRecord>& trials, const CellResult& cell) {
  std::vector<double> steps;
  for (const TrialRecord& trial : trials) {
    const bool wanted =
        trial.status == results::Status::Ok && trial.part == cell.part && trial.cell == cell.cell;
    if (!wanted) continue;
    for (const double step : trial.step_s) {
      if (std::isfinite(step)) steps.push_back(step);
    }
  }
  return steps;
}

json run_entry(const std::string& name, std::size_t family, std::size_t repetitions) {
  return {{"name", name},
          {"family_index", family},
          {"per_family_instance_index", 0},
          {"run_name", name},
          {"run_type", "iteration"},
          {"repetitions", repetitions},
          {"repetition_index", 0},
          {"threads", 1}};
}

void set_time(json& entry, double duration, const char* unit) {
  entry["real_time"] = duration;
  entry["cpu_time"] = duration;
  entry["time_unit"] = unit;
}

// The mean is elapsed time, as in the tables; the others are of single steps.
void add_aggregates(json& benchmarks, const json& run, const std::vector<double>& steps,
                    double mean_s) {
  const auto summary = stats::summarize(steps);
  const auto add = [&](const std::string& aggregate, const char* unit, double value) {
    json entry = run;
    entry["name"] = run["name"].get<std::string>() + "_" + aggregate;
    entry["run_type"] = "aggregate";
    entry.erase("repetition_index");
    entry["aggregate_name"] = aggregate;
    entry["aggregate_unit"] = unit;
    entry["iterations"] = steps.size();
    set_time(entry, value, "ms");
    benchmarks.push_back(std::move(entry));
  };
  add("mean", "time", mean_s * 1e3);
  add("median", "time", summary->median * 1e3);
  if (!summary->sd) return;
  add("stddev", "time", *summary->sd * 1e3);
  add("cv", "percentage", *summary->sd / mean_s);
}

std::string why_not_measured(const CellResult& cell) {
  if (cell.is_ok()) return cell.step_s.why_not();
  return fmt::format("{}: {}", results::to_string(cell.status), cell.reason);
}

void add_run(json& benchmarks, const json& run, const std::vector<double>& steps, double mean_s) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    json entry = run;
    entry["repetition_index"] = i;
    entry["iterations"] = 1;
    set_time(entry, steps[i] * 1e3, "ms");
    benchmarks.push_back(std::move(entry));
  }
  add_aggregates(benchmarks, run, steps, mean_s);
}

}  // namespace

json benchmark_json(const results::Result& result, const std::vector<TrialRecord>& trials) {
  json benchmarks = json::array();
  json not_measured = json::object();
  std::size_t family = 0;
  const std::string plan = summary::name_of_plan(result.plan).value_or("plan");
  for (const summary::PartView& part : summary::parts_of(result)) {
    for (const CellView& cell : part.cells) {
      const std::string name = run_name(plan, cell);
      if (!cell.is_timed()) {
        not_measured[name] = why_not_measured(cell);
        continue;
      }
      const auto steps = steps_of(trials, cell);
      add_run(benchmarks, run_entry(name, family++, steps.size()), steps, cell.step_s->mean);
    }
  }
  json context = benchmark_context(result.context);
  context["not_measured"] = not_measured;
  return {{"context", context}, {"benchmarks", benchmarks}};
}

}  // namespace gradsync::report
