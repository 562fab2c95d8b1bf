#include "harness/watch/judge/wastes/waste_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "harness/base/errors.h"
#include "harness/base/units.h"
#include "harness/text/labels.h"
#include "harness/watch/judge/verdicts/library.h"
#include "harness/watch/judge/verdicts/verdict_words.h"
#include "harness/watch/judge/wastes/savings.h"

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
                     bucket == kDefaultBucketBytes ? " (the default)" : "");
}

// The option as it was given, and where.
std::string cap_of(const Event& wrap) {
  const auto cap = option_of(wrap, "bucket_bytes_cap");
  return cap ? fmt::format("bucket_cap_mb={}{}", in_mebibytes(*cap), at(wrap)) : "";
}

// Returns the change of an option of the wrapper's.
Change wrap_with(const LastReductions& last, Knob knob, std::string what) {
  Change change = change_at(*last.wrap, std::move(what));
  say_library(change, *last.wrap, knob);
  return change;
}

std::string kinds_text(const LastReductions& last) {
  if (last.models > 1) return fmt::format(" of {} wrapped models", last.models);
  return are_of_one_tensor_each(last) ? " of one tensor each" : "";
}

void say_small_reductions(Waste& waste, const LastReductions& last) {
  waste.sentence =
      fmt::format("{} all-reduces{}, {} on average, where {} would be enough", waste.reductions,
                  kinds_text(last), sized(last.bytes / waste.reductions), buckets_for(last.bytes));
  if (last.models > 1) {
    waste.why = "each of them has a wrapper of its own, which shares no bucket with others";
    waste.change = change_at(*last.wrap, "wrap the module that has all of these once");
  } else if (last.wrap != nullptr) {
    waste.why = cap_of(*last.wrap);
    waste.change = wrap_with(last, Knob::Buckets, good_cap(last));
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
  waste.change = wrap_with(last, Knob::Buckets, good_cap(last));
}

void say_no_overlap(Waste& waste, const LastReductions& last) {
  waste.sentence = waste.reductions == 1
                       ? "the one reduction begins after backward's last operation"
                       : fmt::format("all {} reductions begin after backward's last operation",
                                     waste.reductions);
  if (last.wrap == nullptr) {
    waste.why = "the job reduces them by hand, after backward";
    waste.change =
        change_at(*last.backward, fmt::format("wrap the model in DistributedDataParallel with {} "
                                              "and gradient_as_bucket_view=True, or "
                                              "reduce gradients in hooks while backward runs",
                                              good_cap(last)));
  } else if (has_word(*last.wrap, "find_unused_parameters=true")) {
    waste.why = "find_unused_parameters=True" + at(*last.wrap) +
                ": buckets keep the order of parameters, though gradients come in another one";
    waste.change = wrap_with(last, Knob::UnusedParameters,
                             "drop it if every parameter takes part in every micro-batch");
  }
}

struct ChatterWords {
  const char* one;
  const char* several;
  const char* what_to_do;  // null: nothing
};

ChatterWords words_of(WasteKind kind) {
  switch (kind) {
    case WasteKind::Barriers:
      return {"barrier per step", "barriers per step",
              "remove it: collectives do not need a barrier before or after them"};
    case WasteKind::ObjectCollectives:
      return {"collective of objects per step: pickled, and sent in two collectives",
              "collectives of objects per step: pickled, and each sent in two collectives",
              "send a tensor instead, or send the objects only in steps that use them"};
    case WasteKind::SmallCollectives:
      return {"collective of a few bytes per step", "collectives of a few bytes per step",
              "put these values into one tensor, and send it only in steps that use it"};
    case WasteKind::Agreements:
      return {
          "collective of a few bytes per step may decide the step, as a number of tokens does, "
          "or an agreement to skip it",
          "collectives of a few bytes per step may decide the step, as a number of tokens does, "
          "or an agreement to skip it",
          nullptr};
    default:
      return {"read of the device by the host per step", "reads of the device by the host per step",
              "keep the values on the device, and read them together, only in steps that use them"};
  }
}

constexpr std::size_t kPlacesTold = 4;

// "train.py line 40 (12 x), train.py line 52, and 3 lines more"
std::string places_text(const std::vector<CallPlace>& places) {
  std::vector<std::string> texts;
  for (const CallPlace& place : places) {
    const std::string text = place_text(place.file, place.line);
    if (text.empty()) continue;
    texts.push_back(place.calls == 1 ? text : fmt::format("{} ({} x)", text, place.calls));
  }
  if (texts.size() > kPlacesTold) {
    const std::size_t more = texts.size() - kPlacesTold;
    texts.resize(kPlacesTold);
    texts.push_back("and " + text::counted(more, "line more", "lines more"));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

Waste chatter_in_words(WasteKind kind, const Chatter& chatter, const Known<double>& saved_s) {
  const ChatterWords words = words_of(kind);
  Waste waste;
  waste.kind = kind;
  waste.reductions = chatter.calls;
  waste.sentence = text::counted(static_cast<std::size_t>(chatter.calls), words.one, words.several);
  waste.saved_s = saved_s;
  waste.places = chatter.places;
  waste.why = places_text(chatter.places);
  const CallPlace& costliest = chatter.places.front();
  if (words.what_to_do != nullptr) {
    waste.change = Change{costliest.file, costliest.line, words.what_to_do};
  }
  return waste;
}

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
    default:
      throw InternalError("chatter is none of the last reductions");
  }
  return waste;
}

Waste unread_in_words(const UnreadGradients& unread) {
  Waste waste;
  waste.kind = WasteKind::UnreadGradients;
  waste.reductions = 1;
  waste.sentence = fmt::format(
      "a model's gradients are reduced, and cleared unread: {} each time, {:.0f} % of what that "
      "backward reduces",
      sized(unread.bytes),
      100 * static_cast<double>(unread.bytes) / static_cast<double>(unread.of_bytes));
  waste.why =
      fmt::format("no optimizer reads them before they are cleared{}", at(*unread.clearing));
  waste.change = change_at(*unread.forward,
                           "call requires_grad_(False) on the model that runs here while another "
                           "one is trained, and requires_grad_(True) after it");
  waste.saved_s = Unknown{"it is not timed apart from what is needed"};
  return waste;
}

std::string saving_text(const Waste& waste, std::optional<double> step_s) {
  if (!waste.saved_s) return "what it costs is not known: " + waste.saved_s.why_not();
  std::string seconds = fmt::format("{:.3f} s", *waste.saved_s);
  if (step_s && *step_s > 0) seconds += fmt::format(" ({:.0f} %)", 100 * *waste.saved_s / *step_s);
  if (is_chatter(waste.kind)) {
    return fmt::format("a step waits at most {} for {}", seconds,
                       waste.reductions == 1 ? "it" : "them");
  }
  return waste.kind == WasteKind::SmallReductions
             ? fmt::format("fewer would make a step at most {} shorter", seconds)
             : fmt::format("overlap with backward would hide at most {} of a step", seconds);
}

}  // namespace gradsync::watch
