#include "harness/report/comparison_tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "harness/base/units.h"
#include "harness/report/cell_table.h"
#include "harness/report/collectives.h"
#include "harness/report/labels.h"

namespace gradsync::report {

using nlohmann::json;

namespace {

std::vector<json> sides_of(const PartView& part) {
  std::vector<json> sides;
  for (const json& cell : part.cells) {
    sides.push_back(cell["a"]);
    sides.push_back(cell["b"]);
  }
  return sides;
}

// The two columns "HEAD A" and "HEAD B". A run in which a trial of the cell failed shows "-".
void add_pair(std::vector<CellColumn>& columns, const std::string& head,
              const std::function<std::string(const json& side)>& text) {
  for (const char* run : {"a", "b"}) {
    columns.push_back({head + (*run == 'a' ? " A" : " B"), [run, text](const json& cell) {
                         const json& side = cell[run];
                         return side["status"] == "ok" ? text(side) : std::string("-");
                       }});
  }
}

std::string step_text(const json& side, int decimals) {
  const std::string status = side["status"];
  if (status != "ok") return status;
  const json& step = side["step_s"];
  if (!step.is_object()) return "-";
  const json& ci95 = step["ci95"];
  const std::string mean = seconds_text(step["mean"], decimals);
  if (!ci95.is_array()) return mean;
  return fmt::format("{} [{}, {}]", mean, seconds_text(ci95[0], decimals),
                     seconds_text(ci95[1], decimals));
}

bool has_ratio(const json& cell) {
  return cell["step_ratio"].is_object();
}

std::string name_of(const PartView& part, const json& cell) {
  std::string name = topology_label(part.context, cell).text();
  for (const std::string& parameter : part.varying_parameters()) {
    name += fmt::format(", {} {}", parameter, parameter_text(cell["cell"], parameter));
  }
  return name + ", " + strategy_label(cell["cell"].value("strategy", ""));
}

bool both_ok(const json& cell) {
  return cell["a"]["status"] == "ok" && cell["b"]["status"] == "ok";
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
std::string notes(const PartView& part) {
  Lines lines;
  for (const json& cell : part.cells) {
    for (const char* run : {"a", "b"}) {
      const json& side = cell[run];
      if (side["status"] == "ok") continue;
      lines.add(fmt::format("{}: {}: {}", *run == 'a' ? "A" : "B", plain_text(side["status"]),
                            plain_text(side["reason"])),
                name_of(part, cell));
    }
    if (has_ratio(cell)) {
      lines.add(fmt::format("95 % interval of B/A: {}", plain_text(cell["step_ratio"]["interval"])),
                name_of(part, cell));
    } else if (both_ok(cell)) {
      lines.add(fmt::format("No B/A: {}", plain_text(cell["null_reasons"]["step_ratio"])),
                name_of(part, cell));
    }
  }
  return "\n" + lines.bullets(part.cells.size());
}

// How many cells differ, in words; only what an interval can tell.
std::string verdict(const PartView& part) {
  std::size_t slower = 0;
  std::size_t faster = 0;
  std::size_t judged = 0;
  for (const json& cell : part.cells) {
    if (!has_ratio(cell) || !cell["step_ratio"]["ci95"].is_array()) continue;
    ++judged;
    if (cell["step_ratio"]["ci95"][0].get<double>() > 1) ++slower;
    if (cell["step_ratio"]["ci95"][1].get<double>() < 1) ++faster;
  }
  if (judged == 0) return "";
  return fmt::format(
      "\nOf {}, B is slower in {}, faster in {}, and not told apart from A in {}.\n"
      "(Where nothing differs, chance alone puts about one interval in twenty beside 1.)\n",
      counted(judged, "cell with an interval", "cells with an interval"), slower, faster,
      judged - slower - faster);
}

std::string times_text(const PartView& part) {
  if (std::none_of(part.cells.begin(), part.cells.end(), has_ratio)) return notes(part);
  const int decimals = decimals_for(sides_of(part));
  std::vector<CellColumn> columns;
  for (const char* run : {"a", "b"}) {
    columns.push_back({*run == 'a' ? "s/step A" : "s/step B", [run, decimals](const json& cell) {
                         return step_text(cell[run], decimals);
                       }});
  }
  columns.push_back({"B/A", [](const json& cell) { return ratio_text(cell["step_ratio"]); }});
  return "\ns/step = mean optimizer step with its 95 % CI; B/A = ratio of the means. The runs did "
         "not take turns:\nwhatever changed on the machine between them is in the ratio, too.\n\n" +
         cell_table(part, columns) + notes(part) + verdict(part);
}

std::string slowdowns_text(const PartView& part) {
  std::vector<CellColumn> columns;
  add_pair(columns, "slowdown", [](const json& side) { return ratio_text(side["slowdown"]); });
  const auto sides = sides_of(part);
  const bool exposed = std::any_of(sides.begin(), sides.end(), [](const json& side) {
    return side["exposed_comm_s"].is_number();
  });
  if (exposed) {
    add_pair(columns, "exposed", [](const json& side) {
      const json& seconds = side["exposed_comm_s"];
      return seconds.is_number() ? seconds_text(seconds, 3) + " s" : "-";
    });
  }
  return "\nslowdown vs no_sync, paired by round inside each run:\n\n" + cell_table(part, columns);
}

// "all_reduce 56 (34701312 bytes) in A, 14 (8675328 bytes) in B"
std::string collective_differences(const json& a, const json& b) {
  json ops = a;
  ops.update(b);
  std::vector<std::string> texts;
  for (const auto& [op, total] : ops.items()) {
    const json none = {{"count", 0}, {"bytes", 0}};
    const json in_a = a.value(op, none);
    const json in_b = b.value(op, none);
    if (in_a == in_b) continue;
    texts.push_back(fmt::format("{} {} ({} bytes) in A, {} ({} bytes) in B", op,
                                in_a["count"].dump(), in_a["bytes"].dump(), in_b["count"].dump(),
                                in_b["bytes"].dump()));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

std::string collectives_verdict(const PartView& part) {
  std::string text;
  std::size_t same = 0;
  std::size_t unknown = 0;
  for (const json& cell : part.cells) {
    if (cell["same_collectives"].is_null()) ++unknown;
    if (cell["same_collectives"] == true) ++same;
    if (cell["same_collectives"] != false) continue;
    text += fmt::format("- {}: {}.\n", name_of(part, cell),
                        collective_differences(cell["a"]["collectives_per_step"],
                                               cell["b"]["collectives_per_step"]));
  }
  return fmt::format("\nCounts and bytes are the same in {} of {}{}{}\n{}", same,
                     counted(part.cells.size(), "cell", "cells"),
                     unknown == 0 ? "" : fmt::format(", and not known in {}", unknown),
                     text.empty() ? "." : ":", text);
}

std::string collectives_text(const PartView& part) {
  std::vector<CellColumn> columns;
  for (const std::string& op : counted_ops(sides_of(part))) {
    add_pair(columns, op,
             [op](const json& side) { return count_text(side["collectives_per_step"], op); });
  }
  add_pair(columns, "moved", [](const json& side) {
    const json& collectives = side["collectives_per_step"];
    return collectives.is_object() ? format_bytes(moved_bytes(collectives)) : "-";
  });
  return "\nCollectives per rank and step:\n\n" + cell_table(part, columns) +
         collectives_verdict(part);
}

}  // namespace

std::string comparison_tables(const PartView& part) {
  return times_text(part) + slowdowns_text(part) + collectives_text(part);
}

}  // namespace gradsync::report
