#include "harness/gate/page_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "harness/base/units.h"
#include "harness/report/comparison_page.h"
#include "harness/text/labels.h"

namespace gradsync::gate {

using text::Align;
using text::TextTable;

namespace {

std::string or_unknown(const std::optional<std::string>& known) {
  return known.value_or("unknown");
}

// "gradsync 0.1.0 (3f2c1ab Release), torch 2.11.0"; of a training command "torch 2.11.0, 2 ranks"
std::string build_text(const results::Context& context) {
  if (!context.build_type) {
    std::string text = "torch " + or_unknown(context.torch);
    if (context.world_size) {
      text += ", " + text::counted(*context.world_size, "rank", "ranks");
    }
    return text;
  }
  std::string text =
      fmt::format("gradsync {} ({} {}), torch {}", or_unknown(context.gradsync),
                  or_unknown(context.commit), *context.build_type, or_unknown(context.torch));
  if (!context.timing_valid) text += ", not fit for timing";
  return text;
}

std::string percent(double share) {
  return fmt::format("{:g} %", 100 * share);
}

// "3.1 % slower [2.7, 3.6]"; "-" where it is not known.
std::string effect_text(const std::optional<Effect>& effect) {
  return effect ? to_text(*effect) : "-";
}

std::string control_text(const RowReport& row) {
  if (!row.times || !row.times->measures[Measure::Low].effect) return "-";
  return effect_text(row.times->measures[Measure::Low].control);
}

}  // namespace

std::string measure_text(const RowReport& row, Measure measure) {
  return row.times ? effect_text(row.times->measures[measure].effect) : "-";
}

std::string ratio_words(const std::optional<results::StepRatio>& ratio) {
  return ratio ? text::ratio_text(*ratio) : "-";
}

std::size_t turns_of(const RowReport& row) {
  return static_cast<std::size_t>(row.times->turns) +
         static_cast<std::size_t>(row.confirmation_turns);
}

bool took_turns(const RowReport& row) {
  return row.times && row.took_turns;
}

std::vector<std::string> reasons_of(const RowReport& row) {
  if (verdict_of(row) == Verdict::Pass) return {};
  if (!differs_exactly(row)) return {reason_of(row)};
  std::vector<std::string> reasons;
  for (const CountDifference& difference : row.counts->differences) {
    reasons.push_back(difference.sentence);
  }
  if (row.times && row.times->verdict != Verdict::Pass) {
    reasons.push_back(
        fmt::format("times: {}: {}", to_string(row.times->verdict), row.times->reason));
  }
  return reasons;
}

std::vector<std::string> reasons_of(const ClaimOutcome& claim) {
  if (claim.reason.empty()) return {};
  return {claim.reason};
}

std::string settings_text(const GateReport& report) {
  std::vector<std::string> words;
  if (report.asked) {
    const Settings& settings = report.asked->settings;
    words.push_back("margin " + percent(settings.margin));
    words.push_back("smallest effect " + percent(settings.smallest_effect));
    if (report.asked->of_turns) {
      words.back() += fmt::format(" (mean {})", percent(settings.mean_smallest_effect));
    }
    words.push_back(fmt::format("at most {} false alarms", percent(settings.alpha)));
  }
  if (report.duration_s) {
    std::string took = "took " + format_duration(*report.duration_s);
    if (report.time_budget_s) took += " of " + format_duration(*report.time_budget_s);
    words.push_back(took);
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string tally(const GateReport& report) {
  std::map<Verdict, std::size_t> count;
  for (const RowReport& row : report.rows) ++count[verdict_of(row)];
  for (const ClaimOutcome& claim : report.claims) ++count[claim.verdict];
  std::string text =
      fmt::format("{} pass, {}, {} undecided", count[Verdict::Pass],
                  text::counted(count[Verdict::Regression], "regression", "regressions"),
                  count[Verdict::Undecided]);
  if (count[Verdict::Unfit] > 0) text += fmt::format(", {} unfit", count[Verdict::Unfit]);
  return text;
}

std::string passed_text(const GateReport& report) {
  return verdict_of(report) == Verdict::Pass ? "PASSED" : "NOT PASSED";
}

int exit_status(const GateReport& report) {
  return static_cast<int>(exit_status_of(verdict_of(report)));
}

std::vector<std::string> all_notes(const GateReport& report) {
  std::vector<std::string> notes = report.notes;
  for (const summary::ContextDifference& difference : report.differences) {
    if (difference.effect == summary::EffectOnTimes::None) continue;
    notes.push_back(fmt::format("{} differs: {} and {}", difference.field,
                                report::context_value_text(difference.field, difference.a),
                                report::context_value_text(difference.field, difference.b)));
  }
  return notes;
}

TextTable row_table(const std::vector<RowReport>& rows, const std::vector<std::string>& names) {
  const bool timed = std::any_of(rows.begin(), rows.end(),
                                 [](const RowReport& row) { return row.times.has_value(); });
  std::vector<TextTable::Column> columns{{"verdict", Align::Left}, {"row", Align::Left}};
  for (const char* head : {"low quantile", "mean", "control", "turns"}) {
    if (timed) columns.push_back({head});
  }
  TextTable table(columns);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const RowReport& row = rows[i];
    std::vector<std::string> cells{to_string(verdict_of(row)), names[i]};
    if (timed) {
      cells.insert(cells.end(),
                   {measure_text(row, Measure::Low), measure_text(row, Measure::Mean),
                    control_text(row), took_turns(row) ? std::to_string(turns_of(row)) : "-"});
    }
    table.add_row(std::move(cells));
  }
  return table;
}

TextTable claim_table(const std::vector<ClaimOutcome>& claims) {
  TextTable table({{"verdict", Align::Left}, {"claim", Align::Left}, {"ratio"}, {"needed"}});
  for (const ClaimOutcome& claim : claims) {
    table.add_row({to_string(claim.verdict), claim.name, ratio_words(claim.ratio), claim.need});
  }
  return table;
}

std::vector<std::string> all_reasons(const GateReport& report,
                                     const std::vector<std::string>& names) {
  std::vector<std::string> reasons;
  for (std::size_t i = 0; i < report.rows.size(); ++i) {
    for (const std::string& reason : reasons_of(report.rows[i])) {
      reasons.push_back(fmt::format("{}: {}", names[i], reason));
    }
  }
  for (const ClaimOutcome& claim : report.claims) {
    for (const std::string& reason : reasons_of(claim)) {
      reasons.push_back(fmt::format("{}: {}", claim.name, reason));
    }
  }
  return reasons;
}

std::vector<SideWords> sides_of(const GateReport& report) {
  std::vector<SideWords> sides;
  for (const auto& [which, side] :
       {std::pair("baseline", &report.baseline), std::pair("candidate", &report.candidate)}) {
    if (!side->name.empty()) sides.push_back({which, side->name, build_text(side->context)});
  }
  return sides;
}

}  // namespace gradsync::gate
