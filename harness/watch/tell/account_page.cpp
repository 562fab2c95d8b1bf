
#include <fmt/format.h>

#include <algorithm>

#include "harness/account/weight_words.h"
#include "harness/text/labels.h"
#include "harness/text/text_table.h"
#include "harness/text/text_width.h"
#include "harness/watch/tell/pages.h"

namespace gradsync::watch {
namespace {

using stats::FittedWeight;

using account::AccountVerdict;
using account::GradientAccount;
using account::names_text;
using account::percent_text;
using account::ranks_text;
using account::WeightGroup;
using text::TextTable;
using text::wrapped;

constexpr std::size_t kIndent = 2;
constexpr std::size_t kMostMicroBatches = 8;
constexpr std::size_t kMostTables = 3;

std::string weight_text(const FittedWeight& estimate, double mean) {
  if (estimate.kind == FittedWeight::Kind::Absent) return "-";
  const double relative = mean == 0 ? 0 : estimate.weight / mean;
  // No "-0.000" for what is nothing.
  const std::string text = fmt::format("{:.3f}", std::abs(relative) < 5e-4 ? 0.0 : relative);
  return text + (estimate.kind == FittedWeight::Kind::Apart ? " ?" : "");
}

TextTable matrix(const WeightGroup& group) {
  std::size_t micro_batches = 0;
  for (const auto& of_rank : group.weights) micro_batches = std::max(micro_batches, of_rank.size());
  const std::size_t shown = std::min(micro_batches, kMostMicroBatches);
  std::vector<TextTable::Column> columns{{"weights by micro-batch", text::Align::Left}};
  for (std::size_t m = 0; m < shown; ++m) columns.push_back({std::to_string(m + 1)});
  if (shown < micro_batches) columns.push_back({"..."});
  TextTable table(std::move(columns));
  for (std::size_t r = 0; r < group.ranks.size(); ++r) {
    std::vector<std::string> row{group.ranks[r] < 0 ? "the process"
                                                    : fmt::format("rank {}", group.ranks[r])};
    for (std::size_t m = 0; m < std::min(shown, group.weights[r].size()); ++m) {
      row.push_back(weight_text(group.weights[r][m], group.mean()));
    }
    table.add_row(std::move(row));
  }
  return table;
}

std::string group_page(const GradientAccount& account, const WeightGroup& group,
                       std::size_t width) {
  double error = 0;
  for (const auto& of_rank : group.weights) {
    for (const FittedWeight& each : of_rank) error = std::max(error, each.error);
  }
  const double mean = group.mean();
  std::string text;
  if (account.shown.groups.size() > 1) {
    text += wrapped(
        fmt::format("{}, as {} {}:", names_text(group.parameters), ranks_text(group.readers),
                    group.readers.size() == 1 ? "reads it" : "read it"),
        0, width);
  }
  text += matrix(group).to_markdown();
  text += wrapped(fmt::format("relative to their mean, each within {}; {} is left over",
                              mean == 0 ? "0 %" : percent_text(error / std::abs(mean)),
                              percent_text(group.left_over)),
                  0, width);
  return text + "\n";
}

}  // namespace

std::string account_page(const GradientAccount& account, std::size_t width) {
  const auto& groups = account.shown.groups;
  std::string text = "\n";
  for (std::size_t i = 0; i < std::min(groups.size(), kMostTables); ++i) {
    text += group_page(account, groups[i], width);
  }
  for (std::size_t i = 0; i < account.verdicts.size(); ++i) {
    const AccountVerdict& verdict = account.verdicts[i];
    std::string sentence = fmt::format("{}: {}", i == 0 ? "ACCOUNT" : "ALSO", verdict.sentence);
    if (i == 0 && account.steps > 0 && account.lost.empty()) {
      sentence += fmt::format(" (step {}; {} of {} accounted)", account.shown.step + 1,
                              account.alike, account.steps);
    }
    text += wrapped(sentence, 0, width);
    if (!verdict.why.empty()) text += wrapped("why: " + verdict.why, kIndent, width);
  }
  for (const std::string& fault : account.faults) text += wrapped("note: " + fault, 0, width);
  return text;
}

}  // namespace gradsync::watch
