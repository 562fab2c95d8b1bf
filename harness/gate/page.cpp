#include "harness/gate/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <vector>

#include "harness/base/units.h"
#include "harness/gate/verdict.h"
#include "harness/report/comparison_page.h"
#include "harness/text/labels.h"
#include "harness/text/text_table.h"
#include "harness/text/text_width.h"

namespace gradsync::gate {

using report::Align;
using report::display_width;
using report::pad_right;
using report::TextTable;
using report::wrapped;

namespace {

constexpr std::size_t kVerdictColumn = 12;  // "REGRESSION" and two blanks
constexpr std::size_t kIndent = 2 + kVerdictColumn;

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string or_unknown(const std::optional<std::string>& known) {
  return known.value_or("unknown");
}

// "gradsync 0.1.0 (3f2c1ab Release), torch 2.11.0"; of a training command "torch 2.11.0, 2 ranks"
std::string build_text(const results::Context& context) {
  if (!context.build_type) {
    std::string text = "torch " + or_unknown(context.torch);
    if (context.world_size) {
      text += ", " + report::counted(*context.world_size, "rank", "ranks");
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

// "margin 1 %, smallest effect 3 % (mean 10 %), at most 1 % false alarms"
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

// "3.1 % slower [2.7, 3.6]"; "-" where it is not known.
std::string effect_text(const std::optional<Effect>& effect) {
  return effect ? to_text(*effect) : "-";
}

std::string measure_text(const RowReport& row, Measure measure) {
  return row.times ? effect_text(row.times->measures[measure].effect) : "-";
}

std::string control_text(const RowReport& row) {
  if (!row.times || !row.times->measures[Measure::Low].effect) return "-";
  return effect_text(row.times->measures[Measure::Low].control);
}

// The low quantile where there is one: it is what most rows are decided by.
std::string best_measure_text(const RowReport& row) {
  const std::string low = measure_text(row, Measure::Low);
  return low == "-" ? measure_text(row, Measure::Mean) : low;
}

std::size_t turns_of(const RowReport& row) {
  return static_cast<std::size_t>(row.times->turns + row.confirmation_turns);
}

bool took_turns(const RowReport& row) {
  return row.times && row.took_turns;
}

// Why a row did not pass: every difference of its counts, or else its one reason.
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

// One row or claim as the terminal shows it.
struct Entry {
  std::string verdict;
  std::string name;
  std::vector<std::string> numbers;  // columns
  std::vector<std::string> reasons;
};

std::vector<std::size_t> column_widths(const std::vector<Entry>& entries) {
  std::vector<std::size_t> widths(1, 0);  // the name's first
  for (const Entry& entry : entries) {
    widths[0] = std::max(widths[0], display_width(entry.name));
    widths.resize(std::max(widths.size(), entry.numbers.size() + 1), 0);
    for (std::size_t i = 0; i < entry.numbers.size(); ++i) {
      widths[i + 1] = std::max(widths[i + 1], display_width(entry.numbers[i]));
    }
  }
  return widths;
}

std::string without_blanks_at_end(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

// A line for each entry, in columns, with its reasons below; where lines would be too long, the
// numbers of every entry have one of their own.
std::string list_text(const std::vector<Entry>& entries, std::size_t width) {
  const auto widths = column_widths(entries);
  std::size_t whole = kIndent;
  for (const std::size_t column : widths) whole += column + 2;
  const bool one_line = whole - 2 <= width;
  std::string text;
  for (const Entry& entry : entries) {
    std::string line = "  " + pad_right(upper(entry.verdict), kVerdictColumn);
    line += pad_right(entry.name, widths[0]);
    for (std::size_t i = 0; one_line && i < entry.numbers.size(); ++i) {
      line += "  " + pad_right(entry.numbers[i], widths[i + 1]);
    }
    text += without_blanks_at_end(line) + "\n";
    if (!one_line)
      text += wrapped(fmt::format("{}", fmt::join(entry.numbers, ", ")), kIndent, width);
    for (const std::string& reason : entry.reasons) text += wrapped(reason, kIndent, width);
  }
  return text;
}

std::vector<std::string> row_numbers(const RowReport& row) {
  if (!row.times) {
    if (verdict_of(row) == Verdict::Pass) return {"the same counts and bytes"};
    return {};
  }
  std::vector<std::string> numbers{best_measure_text(row)};
  if (took_turns(row)) numbers.push_back(report::counted(turns_of(row), "turn", "turns"));
  return numbers;
}

std::vector<std::string> reasons_of(const ClaimOutcome& claim) {
  if (claim.reason.empty()) return {};
  return {claim.reason};
}

// "1 pass, 2 regressions, 1 undecided"
std::string tally(const GateReport& report) {
  std::map<Verdict, std::size_t> count;
  for (const RowReport& row : report.rows) ++count[verdict_of(row)];
  for (const ClaimOutcome& claim : report.claims) ++count[claim.verdict];
  std::string text =
      fmt::format("{} pass, {}, {} undecided", count[Verdict::Pass],
                  report::counted(count[Verdict::Regression], "regression", "regressions"),
                  count[Verdict::Undecided]);
  if (count[Verdict::Unfit] > 0) text += fmt::format(", {} unfit", count[Verdict::Unfit]);
  return text;
}

int exit_status(const GateReport& report) {
  return static_cast<int>(exit_status_of(verdict_of(report)));
}

// What a reader must know, and the differences that forbid a comparison of times or may be in it.
std::vector<std::string> all_notes(const GateReport& report) {
  std::vector<std::string> notes = report.notes;
  for (const report::ContextDifference& difference : report.differences) {
    if (difference.effect == report::EffectOnTimes::None) continue;
    notes.push_back(fmt::format("{} differs: {} and {}", difference.field,
                                report::context_value_text(difference.field, difference.a),
                                report::context_value_text(difference.field, difference.b)));
  }
  return notes;
}

std::string verdict_cell(Verdict verdict) {
  return verdict == Verdict::Pass ? to_string(verdict) : fmt::format("**{}**", to_string(verdict));
}

// Columns of times only where there are any.
std::string row_table(const std::vector<RowReport>& rows, const std::vector<std::string>& names) {
  const bool timed = std::any_of(rows.begin(), rows.end(),
                                 [](const RowReport& row) { return row.times.has_value(); });
  std::vector<TextTable::Column> columns{{"verdict", Align::Left}, {"row", Align::Left}};
  for (const char* head : {"low quantile", "mean", "control", "turns"}) {
    if (timed) columns.push_back({head});
  }
  TextTable table(columns);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const RowReport& row = rows[i];
    std::vector<std::string> cells{verdict_cell(verdict_of(row)), names[i]};
    if (timed) {
      cells.insert(cells.end(),
                   {measure_text(row, Measure::Low), measure_text(row, Measure::Mean),
                    control_text(row), took_turns(row) ? std::to_string(turns_of(row)) : "-"});
    }
    table.add_row(std::move(cells));
  }
  return table.to_markdown();
}

// Of a claim that was measured.
std::string ratio_words(const std::optional<results::StepRatio>& ratio) {
  return ratio ? report::ratio_text(*ratio) : "-";
}

std::string claim_table(const std::vector<ClaimOutcome>& claims) {
  TextTable table({{"verdict", Align::Left}, {"claim", Align::Left}, {"ratio"}, {"needed"}});
  for (const ClaimOutcome& claim : claims) {
    table.add_row({verdict_cell(claim.verdict), claim.name, ratio_words(claim.ratio),
                   claim.need.substr(std::string("need ").size())});
  }
  return table.to_markdown();
}

std::string bullets(const GateReport& report, const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < report.rows.size(); ++i) {
    for (const std::string& reason : reasons_of(report.rows[i])) {
      text += fmt::format("- {}: {}\n", names[i], reason);
    }
  }
  for (const ClaimOutcome& claim : report.claims) {
    for (const std::string& reason : reasons_of(claim)) {
      text += fmt::format("- {}: {}\n", claim.name, reason);
    }
  }
  return text;
}

// "baseline: build/before", and what is known of it. Claims about one run have no baseline.
std::vector<std::pair<std::string, std::string>> sides_of(const GateReport& report) {
  std::vector<std::pair<std::string, std::string>> sides;
  const auto add = [&](const char* which, const Side& side) {
    if (side.name.empty()) return;
    sides.emplace_back(fmt::format("{}: {}", which, side.name), build_text(side.context));
  };
  add("baseline", report.baseline);
  add("candidate", report.candidate);
  return sides;
}

}  // namespace

std::string passed_text(const GateReport& report) {
  return verdict_of(report) == Verdict::Pass ? "PASSED" : "NOT PASSED";
}

std::string verdict_line(const GateReport& report, std::size_t width) {
  const std::string verdict = fmt::format("VERDICT: {} ({})", passed_text(report), tally(report));
  const std::string exit = fmt::format("exit {}", exit_status(report));
  const std::size_t used = display_width(verdict) + exit.size();
  return verdict + std::string(used + 2 <= width ? width - used : 2, ' ') + exit + "\n";
}

std::string gate_text(const GateReport& report, std::size_t width) {
  std::string text = fmt::format(
      "GATE {}{}\n", report.plan,
      report.claims_file.empty() ? "" : fmt::format(" (claims: {})", report.claims_file));
  for (const auto& [side, build] : sides_of(report)) text += wrapped(side + ", " + build, 0, width);
  text += wrapped(settings_text(report), 0, width);
  for (const std::string& note : all_notes(report)) text += wrapped("note: " + note, 0, width);
  text += "\n";
  const std::vector<std::string> names = names_of(report.rows);
  std::vector<Entry> rows;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const RowReport& row = report.rows[i];
    rows.push_back({to_string(verdict_of(row)), names[i], row_numbers(row), reasons_of(row)});
  }
  std::vector<Entry> claims;
  for (const ClaimOutcome& claim : report.claims) {
    claims.push_back({to_string(claim.verdict),
                      claim.name,
                      {ratio_words(claim.ratio), claim.need},
                      reasons_of(claim)});
  }
  return text + list_text(rows, width) + list_text(claims, width) + verdict_line(report, width);
}

std::string gate_markdown(const GateReport& report) {
  const std::vector<std::string> names = names_of(report.rows);
  std::string text = fmt::format("## Gate {}: {}\n\n{}; exit status {}.\n", report.plan,
                                 passed_text(report), tally(report), exit_status(report));
  if (!report.rows.empty()) text.append("\n").append(row_table(report.rows, names));
  if (!report.claims.empty()) {
    text += fmt::format("\nClaims of {}:\n\n{}", report.claims_file, claim_table(report.claims));
  }
  const std::string reasons = bullets(report, names);
  if (!reasons.empty()) text.append("\n").append(reasons);
  text += "\n";
  for (const auto& [side, build] : sides_of(report)) {
    text += fmt::format("- {}, {}\n", side, build);
  }
  const std::string settings = settings_text(report);
  if (!settings.empty()) text += "- " + settings + "\n";
  for (const std::string& note : all_notes(report)) text += "- note: " + note + "\n";
  return text;
}

}  // namespace gradsync::gate
