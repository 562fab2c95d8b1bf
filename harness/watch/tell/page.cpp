#include <fmt/format.h>

#include <algorithm>

#include "harness/text/text_width.h"
#include "harness/watch/judge/wastes/waste_words.h"
#include "harness/watch/judge/watched.h"
#include "harness/watch/tell/page_parts.h"
#include "harness/watch/tell/pages.h"

namespace gradsync::watch {

using text::wrapped;

namespace {

constexpr std::size_t kIndent = 2;

std::string typical_step(const TypicalStep& typical, bool knows_enough) {
  const auto table = step_table(typical, knows_enough);
  std::string text = table ? table->to_markdown() + "\n" : "";
  const std::string axes = axes_sentence(typical.axes);
  if (!axes.empty()) text += wrapped(axes, 0, kPageWidth) + "\n";
  const std::string times = times_sentence(typical);
  if (!times.empty()) text += wrapped(times, 0, kPageWidth) + "\n";
  for (const std::string& policy : policy_texts(typical.policies)) {
    text += wrapped(policy, 0, kPageWidth);
  }
  if (!policy_texts(typical.policies).empty()) text += "\n";
  return text;
}

std::string verdict_text(const Verdict& verdict, const char* label) {
  std::string text = wrapped(fmt::format("{}: {}", label, verdict.sentence), 0, kPageWidth);
  if (!verdict.why.empty()) text += wrapped("why: " + verdict.why, kIndent, kPageWidth);
  if (verdict.change) text += wrapped(change_text(*verdict.change), kIndent, kPageWidth);
  return text;
}

std::string waste_text(const Waste& waste, const std::optional<TypicalStep>& typical) {
  const char* label = waste.kind == WasteKind::Agreements ? "NOTE: " : "WASTE: ";
  std::string text = wrapped(label + waste.sentence, 0, kPageWidth);
  const auto step_s = typical ? typical->step_s : std::nullopt;
  text += wrapped(saving_text(waste, step_s), kIndent, kPageWidth);
  if (!waste.why.empty()) text += wrapped("why: " + waste.why, kIndent, kPageWidth);
  if (waste.change) text += wrapped(change_text(*waste.change), kIndent, kPageWidth);
  return text;
}

// Where there is more to say than of all of them.
std::string models_text(const std::vector<ModelVerdict>& models) {
  const auto is_like_the_first = [&](const ModelVerdict& model) {
    return model.verdict.sentence == models.front().verdict.sentence;
  };
  if (std::ranges::all_of(models, is_like_the_first)) return "";
  std::string text;
  for (const ModelVerdict& model : models) {
    text += wrapped(fmt::format("model: {}: {}", model_text(model), model.verdict.sentence), 0,
                    kPageWidth);
  }
  return text + "\n";
}

}  // namespace

std::string watch_page(const Watched& watched) {
  std::string text = wrapped("WATCH " + cast_line(watched), 0, kPageWidth) + "\n";
  if (watched.typical) text += typical_step(*watched.typical, knows_what_is_enough(watched));
  const std::string gpu = gpu_sentence(watched);
  if (!gpu.empty()) text += wrapped(gpu, 0, kPageWidth) + "\n";
  const std::string peak = peak_sentence(watched);
  if (!peak.empty()) text += wrapped(peak, 0, kPageWidth) + "\n";
  text += models_text(watched.models);
  const std::vector<std::string> kinds = step_kind_texts(watched.kinds);
  for (const std::string& kind : kinds) text += wrapped(kind, 0, kPageWidth);
  if (!kinds.empty()) text += "\n";
  for (const Flag& flag : watched.flags) text += wrapped("flag: " + flag_text(flag), 0, kPageWidth);
  if (!watched.flags.empty()) text += "\n";
  for (std::size_t i = 0; i < watched.verdicts.size(); ++i) {
    text += verdict_text(watched.verdicts[i], i == 0 ? "VERDICT" : "ALSO");
  }
  const std::string seen = seen_sentence(watched);
  if (!seen.empty()) text += wrapped(seen, kIndent, kPageWidth);
  for (const Waste& waste : watched.wastes) text += waste_text(waste, watched.typical);
  if (watched.account) text += account_page(*watched.account, kPageWidth);
  for (const std::string& fault : watched.faults) text += wrapped("note: " + fault, 0, kPageWidth);
  return text;
}

}  // namespace gradsync::watch
