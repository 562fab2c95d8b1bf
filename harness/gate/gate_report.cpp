#include "harness/gate/gate_report.h"

#include <algorithm>

#include "harness/base/json_fields.h"
#include "harness/summary/run_comparison.h"

namespace gradsync::gate {

using nlohmann::json;

namespace {

json effect_to_json(const std::optional<Effect>& effect) {
  if (!effect) return nullptr;
  return {{"value", effect->value}, {"ci95", results::interval_to_json(effect->ci95)}};
}

json p_to_json(const MeasureDecision& measure) {
  return {{"slower", measure.p_slower},
          {"not_slower", measure.p.not_slower},
          {"control", measure.p_control}};
}

json confirmed_to_json(const MeasureDecision& measure) {
  if (!measure.confirmed_p) return nullptr;
  return {{"effect", effect_to_json(measure.confirmed_effect)}, {"p", *measure.confirmed_p}};
}

json measure_to_json(const MeasureDecision& measure, bool took_turns) {
  return {{"effect", effect_to_json(measure.effect)},
          {"control", effect_to_json(measure.control)},
          {"p", took_turns ? p_to_json(measure) : json(nullptr)},
          {"variance",
           {{"between_starts", optional_to_json(measure.components.between)},
            {"between_turns", optional_to_json(measure.components.within)}}},
          {"confirmed", confirmed_to_json(measure)}};
}

json phases_to_json(const std::vector<PhaseEffect>& phases) {
  json out = json::array();
  for (const PhaseEffect& phase : phases) {
    out.push_back({{"phase", phase.phase},
                   {"share", phase.share},
                   {"effect", effect_to_json(phase.effect)},
                   {"p", optional_to_json(phase.p)}});
  }
  return out;
}

json times_to_json(const RowReport& row) {
  if (!row.times) return nullptr;
  const RowDecision& times = *row.times;
  const auto measure = [&](Measure which) {
    const MeasureDecision& decision = times.measures[which];
    return decision.effect ? measure_to_json(decision, row.took_turns) : json(nullptr);
  };
  return {{"verdict", to_string(times.verdict)},
          {"reason", times.reason},
          {"took_turns", row.took_turns},
          {"turns", times.turns},
          {"starts", row.starts},
          {"confirmation_turns", row.confirmation_turns},
          {"low", measure(Measure::Low)},
          {"mean", measure(Measure::Mean)},
          {"phases", phases_to_json(times.phases)},
          {"smallest_visible_effect", optional_to_json(times.smallest_visible)},
          {"turns_needed", optional_to_json(times.turns_needed)}};
}

json counts_to_json(const std::optional<RowCounts>& counts) {
  if (!counts) return nullptr;
  return {{"differences", counts->differences}, {"unfit_because", counts->unfit_because}};
}

json null_reasons_of(const RowReport& row) {
  json reasons = json::object();
  if (!row.counts) reasons.update({{"counts", "not compared"}});
  if (!row.times) reasons.update({{"times", row.no_times_because}});
  return reasons;
}

json row_to_json(const RowReport& row, const std::string& name) {
  return {{"part", row.row.part},
          {"cell", row.row.cell.written()},
          {"name", name},
          {"verdict", to_string(verdict_of(row))},
          {"reason", reason_of(row)},
          {"counts", counts_to_json(row.counts)},
          {"times", times_to_json(row)},
          {"null_reasons", null_reasons_of(row)}};
}

json side_to_json(const Side& side) {
  const json& context = side.context.written;
  return {{"name", side.name}, {"context", context.is_null() ? json::object() : context}};
}

json asked_to_json(const std::optional<Asked>& asked) {
  if (!asked) return json::object();
  const Settings& settings = asked->settings;
  if (asked->of_turns) return to_json(settings);
  return {{"margin", settings.margin},
          {"smallest_effect", settings.smallest_effect},
          {"alpha", settings.alpha}};
}

}  // namespace

bool differs_exactly(const RowReport& row) {
  return row.counts && !row.counts->differences.empty();
}

Verdict verdict_of(const RowReport& row) {
  if (differs_exactly(row)) return Verdict::Regression;
  if (row.counts && !row.counts->unfit_because.empty()) return Verdict::Unfit;
  if (row.times) return row.times->verdict;
  return row.counts ? Verdict::Pass : Verdict::Unfit;
}

std::string reason_of(const RowReport& row) {
  if (differs_exactly(row)) return row.counts->differences.front().sentence;
  if (row.counts && !row.counts->unfit_because.empty()) return row.counts->unfit_because;
  return row.times ? row.times->reason : row.no_times_because;
}

std::vector<std::string> names_of(const std::vector<RowReport>& reports) {
  std::vector<Row> rows;
  for (const RowReport& report : reports) rows.push_back(report.row);
  return row_names(rows);
}

Verdict verdict_of(const GateReport& report) {
  if (std::any_of(report.rows.begin(), report.rows.end(), differs_exactly)) {
    return Verdict::Regression;
  }
  std::vector<Verdict> verdicts;
  for (const RowReport& row : report.rows) verdicts.push_back(verdict_of(row));
  for (const ClaimOutcome& claim : report.claims) verdicts.push_back(claim.verdict);
  return overall(verdicts);
}

json to_json(const GateReport& report) {
  const auto names = names_of(report.rows);
  json rows = json::array();
  for (std::size_t i = 0; i < report.rows.size(); ++i) {
    rows.push_back(row_to_json(report.rows[i], names[i]));
  }
  const Verdict verdict = verdict_of(report);
  return {{"schema", kGateSchema},
          {"plan", report.plan},
          {"baseline", side_to_json(report.baseline)},
          {"candidate", side_to_json(report.candidate)},
          {"settings", asked_to_json(report.asked)},
          {"differences", report.differences},
          {"notes", report.notes},
          {"rows", rows},
          {"claims_file", report.claims_file.empty() ? json(nullptr) : json(report.claims_file)},
          {"claims", report.claims},
          {"duration_s", optional_to_json(report.duration_s)},
          {"time_budget_s", optional_to_json(report.time_budget_s)},
          {"verdict", to_string(verdict)},
          {"exit_status", static_cast<int>(exit_status_of(verdict))}};
}

}  // namespace gradsync::gate
