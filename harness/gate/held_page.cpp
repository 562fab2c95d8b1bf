#include "harness/gate/held_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "harness/gate/held_counts.h"
#include "harness/gate/page.h"
#include "harness/gate/page_parts.h"
#include "harness/paper/words.h"
#include "harness/text/labels.h"
#include "harness/text/text_table.h"
#include "harness/text/text_width.h"

namespace gradsync::gate {
namespace {

using text::Align;
using text::TextTable;

constexpr const char* kUnknown = "-";
const RankCounts kNone;

// One row of the table: of a quantity what is held, and what was seen.
struct Quantity {
  std::string name;
  std::string held;
  std::string seen;
};

std::string text_of(const std::optional<std::int64_t>& value) {
  return value ? std::to_string(*value) : kUnknown;
}

std::string peak_text(const RankCounts& rank) {
  return rank.peak_allocated_bytes ? std::to_string(*rank.peak_allocated_bytes) : kUnknown;
}

OpTotal total_in(const RankCounts& rank, const std::string& op) {
  const auto found = rank.per_step.find(op);
  return found == rank.per_step.end() ? OpTotal{} : found->second;
}

std::vector<Quantity> quantities_of(const RankCounts& held, const RankCounts& seen) {
  std::vector<Quantity> rows{
      {"micro-batches", std::to_string(micro_batches_of(held)),
       std::to_string(micro_batches_of(seen))},
      {"synchronizations", std::to_string(held.syncs_per_step),
       std::to_string(seen.syncs_per_step)},
  };
  std::set<std::string> ops;
  for (const RankCounts* rank : {&held, &seen}) {
    for (const auto& [op, total] : rank->per_step) ops.insert(op);
  }
  for (const std::string& op : ops) {
    const OpTotal a = total_in(held, op);
    const OpTotal b = total_in(seen, op);
    rows.push_back({op, std::to_string(a.count), std::to_string(b.count)});
    rows.push_back({op + ", bytes", text_of(a.bytes), text_of(b.bytes)});
  }
  if (held.peak_allocated_bytes || seen.peak_allocated_bytes) {
    rows.push_back({"peak allocated, bytes", peak_text(held), peak_text(seen)});
  }
  return rows;
}

// Ranks of which the same is held and the same was seen, with both.
using Pair = std::pair<const RankCounts*, const RankCounts*>;

std::vector<std::pair<std::vector<int>, Pair>> groups_of(const HeldCounts& held,
                                                         const HeldCounts& seen) {
  std::map<int, Pair> by_rank;
  for (const RankCounts& group : held.ranks) {
    for (const int rank : group.ranks) by_rank[rank] = {&group, &kNone};
  }
  for (const RankCounts& group : seen.ranks) {
    for (const int rank : group.ranks) {
      by_rank.try_emplace(rank, &kNone, nullptr).first->second.second = &group;
    }
  }
  std::vector<std::pair<std::vector<int>, Pair>> groups;
  for (const auto& [rank, pair] : by_rank) {
    const auto same = [&own = pair](const auto& group) { return group.second == own; };
    const auto found = std::find_if(groups.begin(), groups.end(), same);
    if (found == groups.end()) {
      groups.push_back({{rank}, pair});
    } else {
      found->first.push_back(rank);
    }
  }
  return groups;
}

std::string ranks_text(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

std::string table_of(const HeldPage& page, bool with_marks) {
  const auto groups = groups_of(page.held, page.seen);
  TextTable table({{"per step and rank", Align::Left}, {page.file}, {"now"}});
  for (const auto& [ranks, pair] : groups) {
    const std::string of_whom = groups.size() == 1 ? "" : ranks_text(ranks) + ": ";
    for (const Quantity& row : quantities_of(*pair.first, *pair.second)) {
      const bool is_marked = with_marks && row.held != row.seen;
      table.add_row(
          {of_whom + row.name, row.held, is_marked ? fmt::format("**{}**", row.seen) : row.seen});
    }
  }
  return table.to_markdown();
}

// What differs and what a reader must know, a line of a list each.
std::string list_of(const GateReport& report) {
  std::string text;
  for (const RowReport& row : report.rows) {
    if (!row.counts) continue;
    for (const CountDifference& difference : row.counts->differences) {
      text += fmt::format("- {}\n", difference.sentence);
    }
    if (!row.counts->unfit_because.empty()) {
      text += fmt::format("- unfit: {}\n", row.counts->unfit_because);
    }
  }
  for (const std::string& note : report.notes) text += fmt::format("- note: {}\n", note);
  return text.empty() ? "" : text + "\n";
}

// A line for each reason; "" where all are held.
std::string peaks_not_held(const HeldCounts& counts) {
  std::set<std::string> reasons;
  for (const RankCounts& group : counts.ranks) {
    if (!group.peak_allocated_bytes) reasons.insert(group.peak_allocated_bytes.why_not());
  }
  std::string text;
  for (const std::string& why : reasons) {
    text += fmt::format("\npeak memory is not held: {}\n", why);
  }
  return text;
}

std::string how_to_renew(const HeldPage& page) {
  const std::string& gpus = page.seen.gpus_of_paper;
  return fmt::format(
      "<details><summary>If this is meant</summary>\n\nRenew the file, and check it in with the "
      "change:\n\n```sh\ngradsync gate counts {} --update {}-- {}\n```\n\n</details>\n",
      page.file, gpus.empty() ? "" : fmt::format("--on {} ", gpus), page.command);
}

// "" of the machine's own devices.
std::string paper_line(const HeldCounts& counts) {
  if (counts.gpus_of_paper.empty()) return "";
  return fmt::format("\n{} ({})\n", paper::kNothingComputed, counts.gpus_of_paper);
}

}  // namespace

std::string held_text(const HeldPage& page) {
  return fmt::format("GATE {}: {}\n\n{}\n{}{}", page.file, page.command, table_of(page, false),
                     list_of(page.report), verdict_line(page.report));
}

std::string held_markdown(const HeldPage& page) {
  std::string text = fmt::format("### gradsync: {}\n\n`{}`, held against `{}`:\n\n{}\n{}",
                                 passed_text(page.report), page.command, page.file,
                                 table_of(page, true), list_of(page.report));
  if (verdict_of(page.report) == Verdict::Regression) text += how_to_renew(page);
  return text;
}

std::string failed_markdown(const std::string& command, const std::string& failure) {
  return fmt::format("### gradsync: the job failed\n\n`{}` {}\n", command, failure);
}

std::string written_text(const std::string& file, const HeldCounts& counts) {
  TextTable table({{"per step and rank", Align::Left}, {file}});
  for (const RankCounts& group : counts.ranks) {
    const std::string of_whom = counts.ranks.size() == 1 ? "" : ranks_text(group.ranks) + ": ";
    for (const Quantity& row : quantities_of(group, group)) {
      table.add_row({of_whom + row.name, row.held});
    }
  }
  return table.to_markdown() + peaks_not_held(counts) + paper_line(counts);
}

}  // namespace gradsync::gate
