#include "harness/watch/tell/page_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/base/units.h"
#include "harness/text/labels.h"

namespace gradsync::watch {

using text::TextTable;

namespace {

std::string counted(int count, const char* singular, const char* plural) {
  return text::counted(static_cast<std::size_t>(count), singular, plural);
}

// Returns how many of the ranks were seen.
std::string cast_of(const Watched& watched) {
  const auto seen = static_cast<int>(watched.ranks.size());
  if (watched.world_size == 0 && seen > 0) {
    return counted(seen, "process", "processes") + " without a process group";
  }
  return fmt::format("{} of {}", seen, counted(watched.world_size, "rank", "ranks"));
}

std::string peak_text(const TensorPeak& peak) {
  const auto bytes = static_cast<double>(*peak.bytes);
  return fmt::format("{} ({} bytes){}", format_bytes(bytes), *peak.bytes,
                     peak.is_on_gpu ? " of its GPU" : "");
}

// A GPU must have as much as torch reserved, which is more than tensors held.
std::string reserved_text(const std::vector<WatchedRank>& ranks) {
  const auto most = std::ranges::max_element(
      ranks, {}, [](const WatchedRank& rank) { return rank.peak.reserved_bytes.value_or(-1); });
  if (!most->peak.reserved_bytes) return "";
  const auto bytes = static_cast<double>(*most->peak.reserved_bytes);
  const std::string text = fmt::format("; torch reserved at most {} ({} bytes) there",
                                       format_bytes(bytes), *most->peak.reserved_bytes);
  return ranks.size() == 1 ? text : fmt::format("{}, on rank {}", text, most->rank);
}

bool holds_less(const WatchedRank& a, const WatchedRank& b) {
  return *a.peak.bytes < *b.peak.bytes;
}

}  // namespace

std::string cast_line(const Watched& watched) {
  std::string text = cast_of(watched);
  if (!watched.wrappers.empty()) text += fmt::format(", {}", fmt::join(watched.wrappers, " and "));
  if (!watched.ranks.empty()) {
    const WatchedRank& rank = watched.ranks.front();
    text += "; ";
    if (rank.rank >= 0) text += fmt::format("rank {}: ", rank.rank);
    text += counted(rank.steps, "step", "steps");
    if (watched.typical && watched.typical->micro_batches > 0) {
      // The first one is never counted as a usual step.
      const bool are_most = 2 * watched.typical->steps >= rank.steps - rank.skipped_steps - 1;
      text += are_most ? ", mostly" : fmt::format(", {} of them", watched.typical->steps);
      text += " of " + counted(watched.typical->micro_batches, "micro-batch", "micro-batches");
    }
    if (rank.skipped_steps > 0) text += fmt::format(", {} skipped", rank.skipped_steps);
    if (rank.evaluation_forwards > 0) {
      text += fmt::format(", {} of evaluation",
                          counted(rank.evaluation_forwards, "forward", "forwards"));
    }
  }
  return text;
}

namespace {

// The collectives of an axis, or of a whole step.
void add_rows(TextTable& table, const std::string& label, const OpSums& now,
              const std::vector<const OpSums*>& shown) {
  for (const auto& [op, sum] : now) {
    std::vector<std::string> row{label.empty() ? op : fmt::format("{} {}", label, op)};
    for (const OpSums* sums : shown) add_cells(row, *sums, op);
    table.add_row(std::move(row));
  }
}

template <typename Sums>
std::vector<const OpSums*> shown_of(const Sums& sums, bool knows_enough) {
  if (!knows_enough) return {&sums.collectives};
  return {&sums.collectives, &sums.ideal, &sums.excess};
}

}  // namespace

std::optional<TextTable> step_table(const TypicalStep& typical, bool knows_enough) {
  if (typical.collectives.empty()) return std::nullopt;
  std::vector<TextTable::Column> columns{
      {"per step and rank", text::Align::Left}, {"now"}, {"bytes"}};
  if (knows_enough) columns.insert(columns.end(), {{"enough"}, {"bytes"}, {"excess"}, {"bytes"}});
  TextTable table(std::move(columns));
  if (typical.axes.size() < 2) {
    add_rows(table, "", typical.collectives, shown_of(typical, knows_enough));
    return table;
  }
  const std::vector<std::string> labels = labels_of(typical.axes);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const Axis& axis = typical.axes[i];
    add_rows(table, labels[i], axis.collectives, shown_of(axis, knows_enough));
  }
  return table;
}

std::string seen_sentence(const Watched& watched) {
  if (was_judged(watched) || watched.ranks.empty()) return "";
  const WatchedRank& rank = watched.ranks.front();
  if (rank.backwards < 0) return "";
  OpSums reductions;
  for (const auto& [op, sum] : rank.collectives) {
    if (op.find("reduce") != std::string::npos) add(reductions, "all", sum);
  }
  const OpSum all = sum_of(reductions, "all");
  return fmt::format("seen{}: {}, {} and {} ({})",
                     rank.rank < 0 ? "" : fmt::format(" of rank {}", rank.rank),
                     counted(rank.backwards, "backward", "backwards"),
                     counted(rank.steps, "optimizer step", "optimizer steps"),
                     text::counted(static_cast<std::size_t>(all.count), "reduction", "reductions"),
                     all.bytes ? bytes_text(all.bytes) : "of unknown size");
}

namespace {

std::string timed_steps_text(const TypicalStep& typical) {
  const bool is_of_some =
      typical.gpu && typical.gpu->steps != 0 && typical.gpu->steps < typical.steps;
  if (!is_of_some) return counted(typical.steps, "step", "steps");
  return fmt::format("{} that torch.profiler recorded, which makes them slower",
                     counted(typical.gpu->steps, "step", "steps"));
}

}  // namespace

std::string times_sentence(const TypicalStep& typical) {
  if (!typical.step_s) return "";
  std::string text =
      fmt::format("{:.3f} s per step (median of {})", *typical.step_s, timed_steps_text(typical));
  if (typical.excess.empty()) return text;
  if (!typical.excess_s) {
    text += "; what of it the excess took is not known: " + typical.excess_s.why_not();
  } else if (*typical.step_s > 0) {
    text += fmt::format(", of which {:.3f} s ({:.0f} %) wait for the excess", *typical.excess_s,
                        100 * *typical.excess_s / *typical.step_s);
  }
  return text;
}

namespace {

constexpr double kSameTime = 0.01;  // a difference that no reader would look for

std::string communicating_text(const GpuTimes& times) {
  std::string text =
      fmt::format("communicates for {:.4f} s: {:.4f} s while it computes, and {:.4f} s exposed",
                  times.communication_s, times.overlapped_s, times.exposed_s);
  const bool waits_for_host = times.waited_s < (1 - kSameTime) * times.exposed_s;
  if (waits_for_host) {
    text += fmt::format(
        " (the GPU waits {:.4f} s of that; in the rest its host has launched nothing "
        "to compute)",
        times.waited_s);
  }
  return text;
}

std::string most_exposed_text(const MostExposed& most) {
  const std::string bytes = most.bytes ? fmt::format(" ({})", bytes_text(most.bytes)) : "";
  return fmt::format("; {} {} of {}{} is exposed most, for {:.4f} s", most.name, most.number,
                     most.of, bytes, most.exposed_s);
}

}  // namespace

std::string gpu_sentence(const Watched& watched) {
  if (watched.ranks.empty() || !watched.ranks.front().gpu) return "";
  const GpuTimes& all = *watched.ranks.front().gpu;
  if (all.communication_s == 0) return "";
  if (watched.typical && watched.typical->gpu) {
    const StepOnGpu& step = *watched.typical->gpu;
    std::string text = "on its GPU a step " + communicating_text(step.times);
    if (step.most_exposed) text += most_exposed_text(*step.most_exposed);
    if (watched.ranks.size() > 1 && watched.series.latest_rank) {
      text += fmt::format("; the others wait for rank {}", *watched.series.latest_rank);
    }
    return text;
  }
  return fmt::format(
      "in the {:.3f} s that were recorded, its GPU {}; it computes for {:.3f} s and is idle for "
      "{:.3f} s",
      all.span_s, communicating_text(all), all.computation_s, all.idle_s);
}

std::string peak_sentence(const Watched& watched) {
  for (const WatchedRank& rank : watched.ranks) {
    if (rank.peak.bytes) continue;
    const std::string& why = rank.peak.bytes.why_not();
    return why == kNotCounted ? "" : "what tensors held at most is not known: " + why;
  }
  if (watched.ranks.empty()) return "";
  const auto [least, most] =
      std::minmax_element(watched.ranks.begin(), watched.ranks.end(), holds_less);
  const std::string text = "tensors held at most " + peak_text(most->peak);
  const std::string reserved = reserved_text(watched.ranks);
  if (watched.ranks.size() == 1) return text + reserved;
  if (!holds_less(*least, *most)) return text + " on every rank" + reserved;
  return fmt::format("{} on rank {}, {} on rank {}{}", text, most->rank, peak_text(least->peak),
                     least->rank, reserved);
}

}  // namespace gradsync::watch
