#include "harness/report/findings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "harness/summary/best_of_all.h"
#include "harness/text/labels.h"

namespace gradsync::report {

using results::Best;
using results::Law;
using results::LawPoint;
using summary::CellView;
using summary::PartView;

namespace {

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

// "On 2 nodes x 1 rank, 1 Gbit/s, compression fp16": the place and what varies beside the sweep.
std::string place_of(const PartView& part, const Law& law) {
  const auto cell = std::ranges::find_if(part.cells, [&](const CellView& one) {
    return one.cell.without({"strategy", "accumulation_steps"}) == law.cell;
  });
  return "On " + cell->name.topology.text() +
         cell->name.varying_text({"accumulation_steps"}, summary::Sharding::ByName);
}

std::string sentence(const PartView& part, const Law& law) {
  std::set<int> fitted;
  const LawPoint* farthest = nullptr;
  std::size_t held_out = 0;
  for (const LawPoint& point : law.points) {
    if (!point.held_out) {
      fitted.insert(point.accumulation_steps);
      continue;
    }
    ++held_out;
    if (farthest == nullptr || std::abs(point.error) > std::abs(farthest->error)) farthest = &point;
  }
  std::string text = fmt::format(
      "{}, a step of m micro-batches, s of them synchronized, takes {:.4f} + {:.4f} m + {:.4f} s "
      "seconds: fitted to {} of {} cells (accumulation {}), which it misses by {} at most",
      place_of(part, law), law.fixed_s, law.micro_batch_s, law.sync_s, law.points.size() - held_out,
      law.points.size(), fmt::join(fitted, ", "), percent(law.largest_residual));
  if (farthest == nullptr) return text + "; none is left to check it.";
  return text + fmt::format("; the other {} by {} at most ({}, accumulation {}).", held_out,
                            percent(*law.largest_error), text::strategy_label(farthest->strategy),
                            farthest->accumulation_steps);
}

// "no_sync, compression fp16, bucket_cap_bytes 1048576"
std::string words_for(const results::Parameters& cell) {
  std::string text = text::strategy_label(cell.strategy());
  for (const plan::Axis& option : summary::communication_options()) {
    const auto value = cell.value(option.name);
    if (cell.has(option.name) && value != plan::default_of(option))
      text += fmt::format(", {} {}", option.name, text::plain_text(value));
  }
  return text;
}

std::string place_of(const CellView& cell) {
  std::set<std::string> named;
  for (const plan::Axis& option : summary::communication_options()) named.insert(option.name);
  return cell.name.topology.text() + cell.name.varying_text(named);
}

// That the pair was chosen for its times, and what its interval makes of that.
std::string chosen_text(const Best& best) {
  if (best.ci95) {
    return fmt::format("an interval that holds for all {} pairs to choose from", best.choices);
  }
  return fmt::format("the fastest of {} pairs in {}", best.choices,
                     text::launches_that_ran(best.launches));
}

std::string ratio_to_defaults(const Best& best) {
  return text::text_or_dash(best.ratio, [&](double ratio) {
    return text::ratio_text({.ratio = ratio, .ci95 = best.ci95, .interval = ""});
  });
}

std::string sentence(const PartView& part, const Best& best, const CellView& cell) {
  std::string text =
      fmt::format("Best of {} on {}{}: {}, {} s/step", best.of, place_of(cell),
                  best.among == results::Among::All ? "" : " with whole gradients",
                  words_for(best.cell), text::seconds_text(best.step_s, part.decimals));
  if (best.cell == best.vs) return text + ", with every option at its default.";
  text += fmt::format("; {} of {} with every option at its default, {}", ratio_to_defaults(best),
                      text::strategy_label(best.vs.strategy()), chosen_text(best));
  const bool rounds = best.cell.compression() != "none";
  return text + (rounds ? "; its gradients are rounded on the wire." : ".");
}

}  // namespace

std::vector<std::string> law_findings(const PartView& part) {
  std::vector<std::string> sentences;
  for (const Law& law : part.laws) sentences.push_back(sentence(part, law));
  return sentences;
}

std::vector<std::string> best_findings(const PartView& part) {
  std::vector<std::string> sentences;
  for (const Best& best : part.best) {
    const auto cell = std::ranges::find(part.cells, best.cell, &CellView::cell);
    if (cell != part.cells.end()) sentences.push_back(sentence(part, best, *cell));
  }
  return sentences;
}

}  // namespace gradsync::report
