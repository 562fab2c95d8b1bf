// The words of a waste.
#pragma once

#include <optional>
#include <string>

#include "harness/watch/judge/wastes/chatter.h"
#include "harness/watch/judge/wastes/last_reductions.h"
#include "harness/watch/judge/wastes/wastes.h"

namespace gradsync::watch {

// Returns the waste without what it would save: what was seen, why, and the option that ends it.
Waste waste_in_words(WasteKind kind, const LastReductions& last);

// What is reduced of a model's gradients and cleared unread, so many times.
struct UnreadGradients {
  int times = 0;
  std::int64_t bytes = 0;     // of one backward
  std::int64_t of_bytes = 0;  // that this backward reduces
  const Event* forward = nullptr;
  const Event* clearing = nullptr;
};

Waste unread_in_words(const UnreadGradients& unread);

// Returns what the job calls too often, and where; `saved_s` of a step.
Waste chatter_in_words(WasteKind kind, const Chatter& chatter, const Known<double>& saved_s);

// "fewer would make a step at most 0.120 s (11 %) shorter", "overlap with backward would hide at
// most 0.120 s (11 %) of a step", "a step waits 0.120 s (11 %) for them", or that it is not known,
// and why.
std::string saving_text(const Waste& waste, std::optional<double> step_s);

}  // namespace gradsync::watch
