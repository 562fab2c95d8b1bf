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

using nlohmann::json;
using report::Align;
using report::display_width;
using report::pad_right;
using report::plain_text;
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

std::string field(const json& context, const char* name) {
  const json value = context.value(name, json());
  return value.is_null() ? "unknown" : plain_text(value);
}

// "gradsync 0.1.0 (3f2c1ab Release), torch 2.11.0"; of a training command "torch 2.11.0, 2 ranks"
std::string build_text(const json& side) {
  const json& context = side["context"];
  if (!context.contains("build_type")) {
    std::string text = "torch " + field(context, "torch");
    if (context.contains("world_size")) {
      text += ", " + report::counted(context["world_size"].get<std::size_t>(), "rank", "ranks");
    }
    return text;
  }
  std::string text =
      fmt::format("gradsync {} ({} {}), torch {}", field(context, "gradsync"),
                  field(context, "commit"), field(context, "build_type"), field(context, "torch"));
  if (!context.value("timing_valid", true)) text += ", not fit for timing";
  return text;
}

std::string percent(const json& share) {
  return fmt::format("{:g} %", 100 * share.get<double>());
}

// "margin 1 %, smallest effect 3 % (mean 10 %), at most 1 % false alarms"
std::string settings_text(const json& gate) {
  const json& settings = gate["settings"];
  std::vector<std::string> words;
  const auto has = [&](const char* name) {
    return settings.contains(name) && settings[name].is_number();
  };
  if (has("margin")) words.push_back("margin " + percent(settings["margin"]));
  if (has("smallest_effect")) {
    words.push_back("smallest effect " + percent(settings["smallest_effect"]));
    if (has("mean_smallest_effect")) {
      words.back() += fmt::format(" (mean {})", percent(settings["mean_smallest_effect"]));
    }
  }
  if (has("alpha"))
    words.push_back(fmt::format("at most {} false alarms", percent(settings["alpha"])));
  if (gate["duration_s"].is_number()) {
    std::string took = "took " + format_duration(gate["duration_s"].get<double>());
    if (gate["time_budget_s"].is_number()) {
      took += " of " + format_duration(gate["time_budget_s"].get<double>());
    }
    words.push_back(took);
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

// "3.1 % slower [2.7, 3.6]"; "-" where it is not known.
std::string effect_text(const json& effect) {
  if (!effect.is_object()) return "-";
  Effect known{effect["value"].get<double>(), std::nullopt};
  const json& ci95 = effect["ci95"];
  if (ci95.is_array()) {
    known.ci95 = stats::Interval{ci95[0].get<double>(), ci95[1].get<double>()};
  }
  return to_text(known);
}

std::string measure_text(const json& row, const char* measure) {
  const json& times = row["times"];
  if (!times.is_object() || !times[measure].is_object()) return "-";
  return effect_text(times[measure]["effect"]);
}

std::string control_text(const json& row) {
  const json& times = row["times"];
  if (!times.is_object() || !times["low"].is_object()) return "-";
  return effect_text(times["low"]["control"]);
}

// The low quantile where there is one: it is what most rows are decided by.
std::string best_measure_text(const json& row) {
  const std::string low = measure_text(row, "low");
  return low == "-" ? measure_text(row, "mean") : low;
}

std::string turns_text(const json& row) {
  const json& times = row["times"];
  if (!times.is_object() || !times["took_turns"].get<bool>()) return "";
  const auto turns =
      times["turns"].get<std::size_t>() + times["confirmation_turns"].get<std::size_t>();
  return report::counted(turns, "turn", "turns");
}

bool counts_differ(const json& row) {
  return row["counts"].is_object() && !row["counts"]["differences"].empty();
}

// Why a row did not pass: every difference of its counts, or else its one reason.
std::vector<std::string> reasons_of(const json& row) {
  std::vector<std::string> reasons;
  if (row["verdict"] == "pass") return reasons;
  if (!counts_differ(row)) return {row["reason"].get<std::string>()};
  for (const json& difference : row["counts"]["differences"]) {
    reasons.push_back(difference["sentence"].get<std::string>());
  }
  if (row["times"].is_object() && row["times"]["verdict"] != "pass") {
    reasons.push_back(fmt::format("times: {}: {}", plain_text(row["times"]["verdict"]),
                                  plain_text(row["times"]["reason"])));
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

std::vector<std::string> row_numbers(const json& row) {
  if (!row["times"].is_object()) {
    if (row["verdict"] == "pass") return {"the same counts and bytes"};
    return {};
  }
  std::vector<std::string> numbers{best_measure_text(row)};
  const std::string turns = turns_text(row);
  if (!turns.empty()) numbers.push_back(turns);
  return numbers;
}

std::vector<std::string> reasons_of_claim(const json& claim) {
  if (claim["reason"].get<std::string>().empty()) return {};
  return {claim["reason"].get<std::string>()};
}

// "1 pass, 2 regressions, 1 undecided"
std::string tally(const json& gate) {
  std::map<std::string, std::size_t> count;
  for (const char* list : {"rows", "claims"}) {
    for (const json& item : gate[list]) ++count[item["verdict"].get<std::string>()];
  }
  std::string text = fmt::format("{} pass, {}, {} undecided", count["pass"],
                                 report::counted(count["regression"], "regression", "regressions"),
                                 count["undecided"]);
  if (count["unfit"] > 0) text += fmt::format(", {} unfit", count["unfit"]);
  return text;
}

std::string passed_text(const json& gate) {
  return gate["verdict"] == "pass" ? "PASSED" : "NOT PASSED";
}

std::string claims_text(const json& gate) {
  return gate["claims_file"].is_null() ? "" : plain_text(gate["claims_file"]);
}

std::string verdict_line(const json& gate, std::size_t width) {
  const std::string verdict = fmt::format("VERDICT: {} ({})", passed_text(gate), tally(gate));
  const std::string exit = fmt::format("exit {}", gate["exit_status"].get<int>());
  const std::size_t used = display_width(verdict) + exit.size();
  return verdict + std::string(used + 2 <= width ? width - used : 2, ' ') + exit + "\n";
}

// Differences that forbid a comparison of times or may be in it.
std::vector<std::string> difference_notes(const json& gate) {
  std::vector<std::string> notes;
  for (const json& difference : gate["differences"]) {
    if (difference["effect"] == "none") continue;
    const std::string field = difference["field"];
    notes.push_back(fmt::format("{} differs: {} and {}", field,
                                report::context_value_text(field, difference["a"]),
                                report::context_value_text(field, difference["b"])));
  }
  return notes;
}

std::vector<std::string> all_notes(const json& gate) {
  std::vector<std::string> notes;
  for (const json& note : gate["notes"]) notes.push_back(plain_text(note));
  for (std::string& note : difference_notes(gate)) notes.push_back(std::move(note));
  return notes;
}

std::string verdict_cell(const json& entry) {
  const std::string verdict = entry["verdict"];
  return verdict == "pass" ? verdict : fmt::format("**{}**", verdict);
}

// Columns of times only where there are any.
std::string row_table(const json& rows) {
  const bool timed = std::any_of(rows.begin(), rows.end(),
                                 [](const json& row) { return row["times"].is_object(); });
  std::vector<TextTable::Column> columns{{"verdict", Align::Left}, {"row", Align::Left}};
  for (const char* head : {"low quantile", "mean", "control", "turns"}) {
    if (timed) columns.push_back({head});
  }
  TextTable table(columns);
  for (const json& row : rows) {
    std::vector<std::string> cells{verdict_cell(row), plain_text(row["name"])};
    if (timed) {
      const std::string turns = turns_text(row);
      cells.insert(cells.end(),
                   {measure_text(row, "low"), measure_text(row, "mean"), control_text(row),
                    turns.empty() ? "-" : turns.substr(0, turns.find(' '))});
    }
    table.add_row(std::move(cells));
  }
  return table.to_markdown();
}

// Of a claim that was measured.
std::string ratio_words(const json& ratio) {
  if (!ratio.is_object()) return "-";
  const json& ends = ratio["ci95"];
  results::Ratio words{ratio["ratio"].get<double>(), std::nullopt, ""};
  if (ends.is_array()) words.ci95 = stats::Interval{ends[0].get<double>(), ends[1].get<double>()};
  return report::ratio_text(words);
}

std::string claim_table(const json& claims) {
  TextTable table({{"verdict", Align::Left}, {"claim", Align::Left}, {"ratio"}, {"needed"}});
  for (const json& claim : claims) {
    table.add_row({verdict_cell(claim), plain_text(claim["name"]), ratio_words(claim["ratio"]),
                   plain_text(claim["need"]).substr(std::string("need ").size())});
  }
  return table.to_markdown();
}

std::string bullets(const json& gate) {
  std::string text;
  for (const json& row : gate["rows"]) {
    for (const std::string& reason : reasons_of(row)) {
      text += fmt::format("- {}: {}\n", plain_text(row["name"]), reason);
    }
  }
  for (const json& claim : gate["claims"]) {
    for (const std::string& reason : reasons_of_claim(claim)) {
      text += fmt::format("- {}: {}\n", plain_text(claim["name"]), reason);
    }
  }
  return text;
}

// Claims about one run have no baseline.
std::vector<std::string> sides_of(const json& gate) {
  std::vector<std::string> sides;
  for (const char* side : {"baseline", "candidate"}) {
    if (!plain_text(gate[side]["name"]).empty()) sides.emplace_back(side);
  }
  return sides;
}

}  // namespace

std::string gate_text(const json& gate, std::size_t width) {
  const std::string claims = claims_text(gate);
  std::string text = fmt::format("GATE {}{}\n", plain_text(gate["plan"]),
                                 claims.empty() ? "" : fmt::format(" (claims: {})", claims));
  for (const std::string& side : sides_of(gate)) {
    const std::string head = fmt::format("{}: {}", side, plain_text(gate[side]["name"]));
    text += wrapped(head + ", " + build_text(gate[side]), 0, width);
  }
  text += wrapped(settings_text(gate), 0, width);
  for (const std::string& note : all_notes(gate)) text += wrapped("note: " + note, 0, width);
  text += "\n";
  std::vector<Entry> rows;
  for (const json& row : gate["rows"]) {
    rows.push_back(
        {plain_text(row["verdict"]), plain_text(row["name"]), row_numbers(row), reasons_of(row)});
  }
  std::vector<Entry> claim_entries;
  for (const json& claim : gate["claims"]) {
    claim_entries.push_back({plain_text(claim["verdict"]),
                             plain_text(claim["name"]),
                             {ratio_words(claim["ratio"]), plain_text(claim["need"])},
                             reasons_of_claim(claim)});
  }
  return text + list_text(rows, width) + list_text(claim_entries, width) +
         verdict_line(gate, width);
}

std::string gate_markdown(const json& gate) {
  std::string text =
      fmt::format("## Gate {}: {}\n\n{}; exit status {}.\n", plain_text(gate["plan"]),
                  passed_text(gate), tally(gate), gate["exit_status"].get<int>());
  if (!gate["rows"].empty()) text.append("\n").append(row_table(gate["rows"]));
  if (!gate["claims"].empty()) {
    text += fmt::format("\nClaims of {}:\n\n{}", claims_text(gate), claim_table(gate["claims"]));
  }
  const std::string reasons = bullets(gate);
  if (!reasons.empty()) text.append("\n").append(reasons);
  text += "\n";
  for (const std::string& side : sides_of(gate)) {
    text +=
        fmt::format("- {}: {}, {}\n", side, plain_text(gate[side]["name"]), build_text(gate[side]));
  }
  const std::string settings = settings_text(gate);
  if (!settings.empty()) text += "- " + settings + "\n";
  for (const std::string& note : all_notes(gate)) text += "- note: " + note + "\n";
  return text;
}

}  // namespace gradsync::gate
