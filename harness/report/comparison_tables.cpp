#include "harness/report/comparison_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "harness/report/cell_table.h"
#include "harness/report/columns.h"
#include "harness/text/labels.h"

namespace gradsync::report {

using results::CellResult;
using summary::CellName;
using summary::ComparedCell;

namespace {

struct NamedCell : ComparedCell {
  CellName name;
};

using Cells = std::vector<NamedCell>;
using Columns = std::vector<CellColumn<NamedCell>>;

struct Side {
  const char* name;
  CellResult ComparedCell::*cell;
};
constexpr Side kSides[] = {{"A", &ComparedCell::a}, {"B", &ComparedCell::b}};

Cells named(const results::Context& context, const std::vector<const ComparedCell*>& cells) {
  std::vector<summary::UnnamedCell> unnamed;
  for (const ComparedCell* cell : cells) {
    unnamed.push_back({&cell->cell, text::topology_label(context, cell->cell.topology(), {})});
  }
  const std::vector<CellName> names = summary::cell_names(unnamed);
  Cells named;
  for (std::size_t i = 0; i < cells.size(); ++i) named.push_back({*cells[i], names[i]});
  return named;
}

std::string full_name(const NamedCell& cell) {
  return cell.name.place() + ", " + cell.name.strategy;
}

int decimals_of(const Cells& cells) {
  std::vector<double> means_s;
  for (const NamedCell& cell : cells) {
    for (const Side& side : kSides) {
      if (const auto& step_s = (cell.*side.cell).step_s) means_s.push_back(step_s->mean);
    }
  }
  return text::decimals_for(means_s);
}

// The two columns "HEAD A" and "HEAD B".
void add_pair(Columns& columns, const Column& column) {
  constexpr int kDecimals = 3;
  for (const auto& [name, cell] : kSides) {
    columns.push_back({column.head + " " + name, [column, cell = cell](const NamedCell& both) {
                         return text_of(column, both.*cell, kDecimals);
                       }});
  }
}

std::string step_with_interval(const CellResult& side, int decimals) {
  if (!side.is_ok()) return results::to_string(side.status);
  if (!side.step_s) return "-";
  std::string mean = text::seconds_text(side.step_s->mean, decimals);
  const auto& ci95 = side.step_s->ci95;
  if (!ci95) return mean;
  return fmt::format("{} [{}, {}]", mean, text::seconds_text(ci95->lo, decimals),
                     text::seconds_text(ci95->hi, decimals));
}

bool has_ratio(const ComparedCell& cell) {
  return static_cast<bool>(cell.step_ratio);
}

constexpr std::size_t kMostNamed = 4;  // cells in one line; more are counted

// One line per text, with the cells it is true of: what goes wrong usually takes many with it.
class Lines {
 public:
  void add(const std::string& text, const std::string& cell) { cells_[text].push_back(cell); }

  std::string bullets(std::size_t all) const {
    std::string bullets;
    for (const auto& [text, cells] : cells_) {
      const std::string where = cells.size() == all ? "all cells"
                                : cells.size() <= kMostNamed
                                    ? fmt::format("{}", fmt::join(cells, "; "))
                                    : fmt::format("{} of {} cells", cells.size(), all);
      bullets += fmt::format("- {} ({})\n", text, where);
    }
    return bullets;
  }

 private:
  std::map<std::string, std::vector<std::string>> cells_;
};

// Why cells have no numbers in one run, why none of B/A, and what the intervals are.
std::string notes(const Cells& cells) {
  Lines lines;
  for (const NamedCell& cell : cells) {
    const std::string name = full_name(cell);
    for (const auto& [run, side] : kSides) {
      const CellResult& ended = cell.*side;
      if (ended.is_ok()) continue;
      lines.add(fmt::format("{}: {}: {}", run, results::to_string(ended.status), ended.reason),
                name);
    }
    if (cell.step_ratio) {
      lines.add(fmt::format("95 % interval of B/A: {}", cell.step_ratio->interval), name);
    } else if (cell.a.is_ok() && cell.b.is_ok()) {
      lines.add(fmt::format("No B/A: {}", cell.step_ratio.why_not()), name);
    }
  }
  return "\n" + lines.bullets(cells.size());
}

// How many cells differ, in words; only what an interval can tell.
std::string verdict(const Cells& cells) {
  std::size_t slower = 0;
  std::size_t faster = 0;
  std::size_t judged = 0;
  for (const NamedCell& cell : cells) {
    if (!cell.step_ratio || !cell.step_ratio->ci95) continue;
    ++judged;
    if (cell.step_ratio->ci95->lo > 1) ++slower;
    if (cell.step_ratio->ci95->hi < 1) ++faster;
  }
  if (judged == 0) return "";
  return fmt::format(
      "\nB is slower in {} of {}, faster in {}, and not clearly different from A in {}.\n"
      "(Where nothing differs, chance alone puts about one interval in twenty beside 1.)\n",
      slower, text::counted(judged, "cell with an interval", "cells with an interval"), faster,
      judged - slower - faster);
}

std::string times_text(const Cells& cells) {
  if (std::ranges::none_of(cells, has_ratio)) return notes(cells);
  Columns columns;
  for (const auto& [run, side] : kSides) {
    columns.push_back({std::string("s/step ") + run,
                       [side = side, decimals = decimals_of(cells)](const NamedCell& cell) {
                         return step_with_interval(cell.*side, decimals);
                       }});
  }
  columns.push_back({"B/A", [](const NamedCell& cell) {
                       return text::text_or_dash(cell.step_ratio, text::ratio_text);
                     }});
  return "\ns/step = mean optimizer step with its 95 % CI; B/A = ratio of the means. The runs did "
         "not take turns:\nwhatever changed on the machine between them is in the ratio, too.\n\n" +
         cell_table(cells, columns).to_markdown() + notes(cells) + verdict(cells);
}

std::string slowdowns_text(const Cells& cells) {
  Columns columns;
  add_pair(columns, slowdown_column());
  const bool exposed = std::ranges::any_of(
      cells, [](const NamedCell& cell) { return cell.a.exposed_comm_s || cell.b.exposed_comm_s; });
  if (exposed) add_pair(columns, exposed_column());
  return "\nslowdown vs no_sync, paired by round inside each run:\n\n" +
         cell_table(cells, columns).to_markdown();
}

// "all_reduce 56 (34701312 bytes) in A, 14 (8675328 bytes) in B"
std::string collective_differences(const results::OpCounts& a, const results::OpCounts& b) {
  std::set<std::string> ops;
  for (const auto* counts : {&a, &b}) {
    for (const auto& [op, total] : *counts) ops.insert(op);
  }
  const auto total_in = [](const results::OpCounts& counts, const std::string& op) {
    const auto found = counts.find(op);
    return found == counts.end() ? results::OpCount{} : found->second;
  };
  std::vector<std::string> texts;
  for (const std::string& op : ops) {
    const auto in_a = total_in(a, op);
    const auto in_b = total_in(b, op);
    if (in_a == in_b) continue;
    texts.push_back(fmt::format("{} {} ({} bytes) in A, {} ({} bytes) in B", op, in_a.count,
                                in_a.bytes, in_b.count, in_b.bytes));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

std::string collectives_verdict(const Cells& cells) {
  std::string text;
  std::size_t same = 0;
  std::size_t unknown = 0;
  for (const NamedCell& cell : cells) {
    if (!cell.same_collectives) {
      ++unknown;
    } else if (*cell.same_collectives) {
      ++same;
    } else {
      text += fmt::format(
          "- {}: {}.\n", full_name(cell),
          collective_differences(*cell.a.collectives_per_step, *cell.b.collectives_per_step));
    }
  }
  return fmt::format("\nCounts and bytes are the same in {} of {}{}{}\n{}", same,
                     text::counted(cells.size(), "cell", "cells"),
                     unknown == 0 ? "" : fmt::format(", and not known in {}", unknown),
                     text.empty() ? "." : ":", text);
}

std::string collectives_text(const Cells& cells) {
  Columns columns;
  for (const char* op : kCountedOps) {
    const auto either_uses = [op](const NamedCell& cell) {
      return uses(cell.a, op) || uses(cell.b, op);
    };
    if (std::ranges::any_of(cells, either_uses)) add_pair(columns, count_column(op));
  }
  add_pair(columns, moved_column());
  return "\nCollectives per rank and step:\n\n" + cell_table(cells, columns).to_markdown() +
         collectives_verdict(cells);
}

}  // namespace

std::string comparison_tables(const results::Context& context,
                              const std::vector<const ComparedCell*>& cells) {
  const Cells rows = named(context, cells);
  return times_text(rows) + slowdowns_text(rows) + collectives_text(rows);
}

}  // namespace gradsync::report
