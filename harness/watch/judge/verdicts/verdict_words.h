// The phrasebook of verdicts: the name and the sentences of each cause (cause_words.cpp), and the
// sentence of each kind. Tests assert kinds, causes and numbers;
// tests/harness/watch/judge/golden/phrases.txt has every sentence.
#pragma once

#include <span>
#include <string>

#include "harness/watch/judge/verdicts/verdict.h"
#include "harness/watch/read/event.h"

namespace gradsync::watch {

// The words of a cause. Placeholders: {at}, where it was seen; {which} micro-batches; {given}, what
// Grounds say; {how_often} the usual step synchronizes; in a change {defer}, how to defer
// synchronization under the wrapper of the Forward in Grounds.
struct CauseWords {
  Cause cause;
  const char* name;                    // in JSON
  const char* why;                     // of NotInFile: what the file does not say
  const char* change = nullptr;        // null: nothing is known that would help
  const char* other_change = nullptr;  // where Grounds::other_change holds
};

std::span<const CauseWords> all_cause_words();
const CauseWords& words_of(Cause cause);

// Returns ", train.py line 11"; nothing where the place is not known.
std::string at(const Event& event);

Change change_at(const Event& event, std::string what);

// Where a cause was seen.
struct Grounds {
  const Event* at = nullptr;         // null: no line of the job
  const Event* change_at = nullptr;  // where that is another
  const char* which = "";
  std::string given = "";
  bool other_change = false;
};

// Sets the cause of `verdict`, and with it why, and what to change.
void explain(Verdict& verdict, Cause cause, const Grounds& grounds = {});

// Returns the verdict with the sentence for its numbers.
Verdict told(VerdictKind kind, const VerdictNumbers& numbers = {});
// Has the verdict say what the account of the job comes to ("fails"), and why where it has no
// reason of its own: it is not good then.
void say_account(Verdict& verdict, const char* outcome, const std::string& why);

// Has the verdict say that it is on the model of this InnerForward.
void say_inside(Verdict& verdict, const Event& forward);

Verdict not_recognised(Cause cause, const Grounds& grounds = {});
Verdict no_torch();
Verdict not_in_file(Cause cause, const Grounds& grounds = {}, const VerdictNumbers& numbers = {});

}  // namespace gradsync::watch
