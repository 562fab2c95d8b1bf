#include "harness/watch/wastes/waste_words.h"

#include <fmt/format.h>

#include "harness/base/units.h"
#include "harness/watch/verdicts/verdict_parts.h"
#include "harness/watch/wastes/savings.h"

namespace gradsync::watch {
namespace {

std::string sized(std::int64_t bytes) {
  return format_bytes(static_cast<double>(bytes));
}

std::string in_mebibytes(std::int64_t bytes) {
  return fmt::format("{:g}", static_cast<double>(bytes) / static_cast<double>(kMebibyte));
}

// The option that would be good for these gradients.
std::string good_cap(const LastReductions& last) {
  const std::int64_t bucket = bucket_bytes_for(last.bytes);
  return fmt::format("bucket_cap_mb={}{}", in_mebibytes(bucket),
                     bucket == kDefaultBucketBytes ? ", as it is by itself" : "");
}

// The option as it was given, and where.
std::string cap_of(const Event& wrap) {
  const auto cap = option_of(wrap, "bucket_bytes_cap");
  return cap ? fmt::format("bucket_cap_mb={}{}", in_mebibytes(*cap), at(wrap)) : "";
}

void say_small_reductions(Waste& waste, const LastReductions& last) {
  waste.sentence =
      fmt::format("{} all-reduces{}, {} on average, where {} would be enough", waste.reductions,
                  are_of_one_tensor_each(last) ? " of one tensor each" : "",
                  sized(last.bytes / waste.reductions), buckets_for(last.bytes));
  if (last.wrap != nullptr) {
    waste.why = cap_of(*last.wrap);
    waste.change = change_at(*last.wrap, good_cap(last));
  } else {
    waste.change = change_at(
        *last.backward, fmt::format("reduce the gradients of this backward in buckets of {}, as "
                                    "DistributedDataParallel does",
                                    sized(bucket_bytes_for(last.bytes))));
  }
}

void say_one_bucket(Waste& waste, const LastReductions& last) {
  waste.sentence = fmt::format(
      "one bucket has all {} of gradients: its reduction begins after backward's last operation",
      sized(last.bytes));
  waste.why = cap_of(*last.wrap);
  waste.change = change_at(*last.wrap, good_cap(last));
}

void say_no_overlap(Waste& waste, const LastReductions& last) {
  waste.sentence = waste.reductions == 1
                       ? "the one reduction begins after backward's last operation"
                       : fmt::format("all {} reductions begin after backward's last operation",
                                     waste.reductions);
  if (last.wrap == nullptr) {
    waste.why = "the job reduces them by itself, behind backward";
    waste.change = change_at(
        *last.backward,
        fmt::format(
            "reduce its gradients while it runs, as DistributedDataParallel does; here with "
            "{} and gradient_as_bucket_view=True",
            good_cap(last)));
  } else if (has_word(*last.wrap, "find_unused_parameters=true")) {
    waste.why = "find_unused_parameters=True" + at(*last.wrap) +
                ": buckets keep the order of parameters, though gradients come in another one";
    waste.change =
        change_at(*last.wrap, "drop it if every parameter takes part in every micro-batch");
  }
}

}  // namespace

Waste waste_in_words(WasteKind kind, const LastReductions& last) {
  Waste waste;
  waste.kind = kind;
  waste.reductions = static_cast<int>(last.reductions.size());
  switch (kind) {
    case WasteKind::SmallReductions:
      say_small_reductions(waste, last);
      break;
    case WasteKind::OneBucket:
      say_one_bucket(waste, last);
      break;
    case WasteKind::NoOverlap:
      say_no_overlap(waste, last);
      break;
  }
  return waste;
}

std::string saving_text(const Waste& waste, std::optional<double> step_s) {
  if (!waste.saved_s) return "what it costs is not known: " + waste.saved_s.why_not();
  std::string seconds = fmt::format("{:.3f} s", *waste.saved_s);
  if (step_s && *step_s > 0) seconds += fmt::format(" ({:.0f} %)", 100 * *waste.saved_s / *step_s);
  return waste.kind == WasteKind::SmallReductions
             ? fmt::format("fewer would make a step at most {} shorter", seconds)
             : fmt::format("beside backward, at most {} of a step would be hidden", seconds);
}

}  // namespace gradsync::watch
