#include "harness/gate/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "harness/gate/page_parts.h"
#include "harness/gate/verdict.h"
#include "harness/text/labels.h"
#include "harness/text/text_table.h"
#include "harness/text/text_width.h"

namespace gradsync::gate {

using text::display_width;
using text::pad_right;
using text::TextTable;
using text::wrapped;

namespace {

constexpr std::size_t kVerdictColumn = 12;  // "REGRESSION" and two blanks
constexpr std::size_t kIndent = 2 + kVerdictColumn;

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

// The low quantile where there is one: it is what most rows are decided by.
std::string best_measure_text(const RowReport& row) {
  const std::string low = measure_text(row, Measure::Low);
  return low == "-" ? measure_text(row, Measure::Mean) : low;
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
  if (took_turns(row)) numbers.push_back(text::counted(turns_of(row), "turn", "turns"));
  return numbers;
}

// Whatever did not pass stands out.
std::string with_bold_verdicts(const TextTable& table) {
  TextTable bold(table.columns());
  for (std::vector<std::string> row : table.rows()) {
    if (row.front() != to_string(Verdict::Pass)) row.front() = "**" + row.front() + "**";
    bold.add_row(std::move(row));
  }
  return bold.to_markdown();
}

}  // namespace

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
  for (const SideWords& side : sides_of(report)) {
    text += wrapped(fmt::format("{}: {}, {}", side.which, side.name, side.build), 0, width);
  }
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
                      {ratio_words(claim.ratio), "need " + claim.need},
                      reasons_of(claim)});
  }
  return text + list_text(rows, width) + list_text(claims, width) + verdict_line(report, width);
}

std::string gate_markdown(const GateReport& report) {
  const std::vector<std::string> names = names_of(report.rows);
  std::string text = fmt::format("## Gate {}: {}\n\n{}; exit status {}.\n", report.plan,
                                 passed_text(report), tally(report), exit_status(report));
  if (!report.rows.empty())
    text.append("\n").append(with_bold_verdicts(row_table(report.rows, names)));
  if (!report.claims.empty()) {
    text += fmt::format("\nClaims of {}:\n\n{}", report.claims_file,
                        with_bold_verdicts(claim_table(report.claims)));
  }
  const std::vector<std::string> reasons = all_reasons(report, names);
  if (!reasons.empty()) text += "\n";
  for (const std::string& reason : reasons) text += "- " + reason + "\n";
  text += "\n";
  for (const SideWords& side : sides_of(report)) {
    text += fmt::format("- {}: {}, {}\n", side.which, side.name, side.build);
  }
  const std::string settings = settings_text(report);
  if (!settings.empty()) text += "- " + settings + "\n";
  for (const std::string& note : all_notes(report)) text += "- note: " + note + "\n";
  return text;
}

}  // namespace gradsync::gate
