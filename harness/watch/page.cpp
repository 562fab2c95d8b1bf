#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/text/labels.h"
#include "harness/text/text_table.h"
#include "harness/text/text_width.h"
#include "harness/watch/watched.h"

namespace gradsync::watch {

using report::Align;
using report::TextTable;
using report::wrapped;

namespace {

constexpr std::size_t kIndent = 2;

std::string counted(int count, const char* singular, const char* plural) {
  return report::counted(static_cast<std::size_t>(count), singular, plural);
}

std::string table_of(const TypicalStep& typical, bool knows_enough) {
  if (typical.collectives.empty()) return "";
  std::vector<TextTable::Column> columns{{"per step and rank", Align::Left}, {"now"}, {"bytes"}};
  std::vector<const OpSums*> shown{&typical.collectives};
  if (knows_enough) {
    columns.insert(columns.end(), {{"enough"}, {"bytes"}, {"excess"}, {"bytes"}});
    shown.insert(shown.end(), {&typical.ideal, &typical.excess});
  }
  TextTable table(std::move(columns));
  for (const auto& [op, sum] : typical.collectives) {
    std::vector<std::string> row{op};
    for (const OpSums* sums : shown) add_cells(row, *sums, op);
    table.add_row(std::move(row));
  }
  return table.to_markdown() + "\n";
}

// "0.512 s per step (median), of which 0.301 s (59 %) for the excess"
std::string times_of(const TypicalStep& typical) {
  if (!typical.step_s) return "";
  std::string text = fmt::format("{:.3f} s per step (median of {})", *typical.step_s,
                                 counted(typical.steps, "step", "steps"));
  if (typical.excess.empty()) return text + "\n\n";
  if (!typical.excess_s) {
    text += "; what of it the excess took is not known: " + typical.no_excess_s_because;
  } else if (*typical.step_s > 0) {
    text += fmt::format(", of which {:.3f} s ({:.0f} %) wait for the excess", *typical.excess_s,
                        100 * *typical.excess_s / *typical.step_s);
  }
  return wrapped(text, 0, kPageWidth) + "\n";
}

// Who was seen of whom.
std::string cast_of(const Watched& watched) {
  const auto seen = static_cast<int>(watched.ranks.size());
  if (watched.world_size == 0 && seen > 0) {
    return counted(seen, "process", "processes") + " without a process group";
  }
  return fmt::format("{} of {}", seen, counted(watched.world_size, "rank", "ranks"));
}

std::string head_of(const Watched& watched) {
  std::string text = "WATCH " + cast_of(watched);
  if (!watched.wrappers.empty()) {
    text += fmt::format(", {}", fmt::join(watched.wrappers, " and "));
  }
  if (!watched.ranks.empty()) {
    const WatchedRank& rank = watched.ranks.front();
    text += "; ";
    if (rank.rank >= 0) text += fmt::format("rank {}: ", rank.rank);
    text += counted(rank.steps, "step", "steps");
    if (watched.typical && watched.typical->micro_batches > 0) {
      text += fmt::format(", mostly of {}",
                          counted(watched.typical->micro_batches, "micro-batch", "micro-batches"));
    }
    if (rank.skipped_steps > 0) text += fmt::format(", {} skipped", rank.skipped_steps);
    if (rank.evaluation_forwards > 0) {
      text += fmt::format(", {} of evaluation",
                          counted(rank.evaluation_forwards, "forward", "forwards"));
    }
  }
  return wrapped(text, 0, kPageWidth) + "\n";
}

std::string verdict_text(const Verdict& verdict, const char* label) {
  std::string text = wrapped(fmt::format("{}: {}", label, verdict.sentence), 0, kPageWidth);
  if (!verdict.why.empty()) text += wrapped("why: " + verdict.why, kIndent, kPageWidth);
  if (verdict.change) text += wrapped(change_text(*verdict.change), kIndent, kPageWidth);
  return text;
}

}  // namespace

std::string watch_page(const Watched& watched) {
  std::string text = head_of(watched);
  if (watched.typical) {
    text += table_of(*watched.typical, knows_what_is_enough(watched)) + times_of(*watched.typical);
  }
  for (std::size_t i = 0; i < watched.verdicts.size(); ++i) {
    text += verdict_text(watched.verdicts[i], i == 0 ? "VERDICT" : "ALSO");
  }
  for (const std::string& fault : watched.faults) text += wrapped("note: " + fault, 0, kPageWidth);
  return text;
}

}  // namespace gradsync::watch
