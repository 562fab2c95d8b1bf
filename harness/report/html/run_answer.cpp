#include <fmt/format.h>

#include <algorithm>

#include "harness/report/html/run_page.h"
#include "harness/text/labels.h"

namespace gradsync::html {

using summary::GuideClaim;
using summary::GuideEvidence;
using summary::GuideStatement;
using summary::GuideVerdict;

namespace {

const GuideClaim& claim_of(const std::vector<GuideClaim>& claims, GuideStatement statement) {
  return *std::ranges::find(claims, statement, &GuideClaim::statement);
}

const GuideEvidence* first_that(const GuideClaim& claim, GuideVerdict verdict) {
  const auto found = std::ranges::find(claim.evidence, verdict, &GuideEvidence::verdict);
  return found == claim.evidence.end() ? nullptr : &*found;
}

// Returns the evidence with the largest effect among those with that verdict.
const GuideEvidence* largest(const GuideClaim& claim, GuideVerdict verdict) {
  const GuideEvidence* most = nullptr;
  for (const GuideEvidence& evidence : claim.evidence) {
    if (evidence.verdict != verdict || !evidence.effect) continue;
    if (!most || evidence.effect->ratio > most->effect->ratio) most = &evidence;
  }
  return most;
}

std::string answer_on_memory(const GuideClaim& claim) {
  if (const GuideEvidence* found = first_that(claim, GuideVerdict::Holds)) {
    return found->sentence + ".";
  }
  const GuideEvidence& first = claim.evidence.front();
  return first.sentence + (claim.verdict == GuideVerdict::Undecided ? ": undecided." : ".");
}

std::string answer_on_times(const GuideClaim& costs) {
  if (const GuideEvidence* most = largest(costs, GuideVerdict::Holds)) {
    return fmt::format("Synchronizing in every micro-batch makes a step {} as long on {}.",
                       text::ratio_text(*most->effect), most->place);
  }
  if (first_that(costs, GuideVerdict::DoesNotHold) && costs.verdict == GuideVerdict::DoesNotHold) {
    const GuideEvidence* most = largest(costs, GuideVerdict::DoesNotHold);
    return fmt::format("Synchronizing in every micro-batch costs next to nothing here: {} at most.",
                       text::ratio_text(*most->effect));
  }
  if (const GuideEvidence* most = largest(costs, GuideVerdict::Undecided)) {
    return fmt::format("Not decided yet: on {}, {}.", most->place, most->sentence);
  }
  const GuideEvidence& first = costs.evidence.front();
  return fmt::format("Not decided: on {}, {}.", first.place, first.sentence);
}

}  // namespace

std::string answer_of(const results::Result& result, const std::vector<GuideClaim>& claims) {
  const GuideClaim& memory = claim_of(claims, GuideStatement::NoSyncRunsOutOfMemory);
  const GuideClaim& costs = claim_of(claims, GuideStatement::EveryMicroBatchCosts);
  if (!memory.evidence.empty()) return answer_on_memory(memory);
  if (!costs.evidence.empty()) return answer_on_times(costs);
  return text::counted(result.cells.size(), "row was measured", "rows were measured") +
         "; none of them bears on what synchronizing in every micro-batch costs.";
}

std::string lead_of(const std::vector<GuideClaim>& claims) {
  std::string text;
  struct Words {
    GuideVerdict verdict;
    const char* of_one;
    const char* of_several;
  };
  for (const auto& [verdict, of_one, of_several] :
       {Words{GuideVerdict::Holds, "holds here", "hold here"},
        Words{GuideVerdict::DoesNotHold, "does not hold here", "do not hold here"},
        Words{GuideVerdict::Undecided, "is undecided", "are undecided"},
        Words{GuideVerdict::NotMeasured, "was not measured", "were not measured"}}) {
    const auto count =
        static_cast<std::size_t>(std::ranges::count(claims, verdict, &GuideClaim::verdict));
    if (count == 0) continue;
    text += (text.empty() ? "" : ", ") + text::counted(count, of_one, of_several);
  }
  return fmt::format("The guide’s {} claims: {} (<a href=\"#claims\">which, and why</a>).",
                     claims.size(), text);
}

}  // namespace gradsync::html
