#include "harness/watch/tell/equal_report.h"

#include <fmt/format.h>

#include <array>
#include <tuple>
#include <utility>

#include "harness/base/fields_inline.h"
#include "harness/text/text_table.h"
#include "harness/text/text_width.h"

namespace gradsync::watch {

// In equal.json.
constexpr auto names_of(const Equality*) {
  return std::array{std::pair{Equality::Equal, "equal"}, std::pair{Equality::NotEqual, "not_equal"},
                    std::pair{Equality::Unknown, "unknown"}};
}

constexpr auto names_of(const EqualKind*) {
  return std::array{std::pair{EqualKind::Equal, "equal"}, std::pair{EqualKind::Factor, "factor"},
                    std::pair{EqualKind::OtherWeights, "other_weights"},
                    std::pair{EqualKind::OtherSamples, "other_samples"},
                    std::pair{EqualKind::OtherStart, "other_start"}};
}

GRADSYNC_FIELDS_OF(Split, ranks, micro_batches, micro_batch_size)
GRADSYNC_FIELDS_OF(GradientDifference, factor, difference, left_over, worst)
GRADSYNC_FIELDS_OF(EqualVerdict, kind, sentence, why, gradient)
GRADSYNC_FIELDS_OF(ComparedSplit, split, verdict)

namespace {

struct EqualFile {
  std::string schema = "gradsync.equal/1";
  std::vector<std::string> command;
  Equality equality = Equality::Unknown;
  Split right;
  std::vector<ComparedSplit> others;
};

GRADSYNC_FIELDS_OF(EqualFile, schema, command, equality, right, others)

std::vector<std::string> row(const Split& split, const std::string& said) {
  return {std::to_string(split.ranks), std::to_string(split.micro_batches),
          std::to_string(split.micro_batch_size), said};
}

// What a table has room for.
std::string in_short(const EqualVerdict& verdict) {
  switch (verdict.kind) {
    case EqualKind::OtherWeights:
      return "the same samples, with other weights";
    case EqualKind::OtherSamples:
      return "another gradient";
    case EqualKind::OtherStart:
      return "of other initial parameters";
    case EqualKind::Equal:
    case EqualKind::Factor:
      break;
  }
  return verdict.sentence;
}

std::string table_of(const EqualReport& report) {
  text::TextTable table({{"ranks"},
                         {"micro-batches"},
                         {"samples of each"},
                         {"gradient of the first step", text::Align::Left}});
  table.add_row(row(report.right, "reference"));
  for (const ComparedSplit& other : report.others) {
    table.add_row(row(other.split, in_short(other.verdict)));
  }
  return table.to_markdown();
}

const char* conclusion(Equality equality) {
  switch (equality) {
    case Equality::Equal:
      return "EQUAL: the gradient is the same however it is split";
    case Equality::NotEqual:
      return "NOT EQUAL: the gradient depends on the split";
    case Equality::Unknown:
      break;
  }
  return "UNKNOWN: what was split differs in something else";
}

std::string reasons(const std::vector<ComparedSplit>& others) {
  std::string said;
  for (const auto& [split, verdict] : others) {
    if (verdict.kind == EqualKind::Equal) continue;
    said += text::wrapped(fmt::format("{}: {}", split_text(split), verdict.sentence), 0,
                          text::kTerminalWidth);
    if (!verdict.why.empty()) said += text::wrapped("why: " + verdict.why, 2, text::kTerminalWidth);
  }
  return said;
}

}  // namespace

Equality equality_of(const EqualReport& report) {
  Equality equality = Equality::Equal;
  for (const auto& [split, verdict] : report.others) {
    if (verdict.kind == EqualKind::Equal) continue;
    if (!is_unequal(verdict.kind)) return Equality::Unknown;
    equality = Equality::NotEqual;
  }
  return equality;
}

std::string equal_page(const EqualReport& report) {
  return fmt::format("{}\n{}\n{}", table_of(report), conclusion(equality_of(report)),
                     reasons(report.others));
}

std::string equal_json(const EqualReport& report) {
  const EqualFile file{.command = report.command,
                       .equality = equality_of(report),
                       .right = report.right,
                       .others = report.others};
  return write_fields(file).dump(1) + "\n";
}

}  // namespace gradsync::watch
