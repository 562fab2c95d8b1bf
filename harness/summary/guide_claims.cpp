#include "harness/summary/guide_claims.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "harness/summary/claim_findings.h"
#include "harness/text/labels.h"

namespace gradsync::summary {

using results::CellResult;

namespace {

// The settings of a run that the guide's claims can be held against: everything but the strategy,
// with at least two micro-batches in a step, since with one there is nothing to leave out.
struct ClaimSetting {
  const Setting* cells = nullptr;  // of the part that it is in
  std::string part;                // "" where the plan has no parts
  std::string place;    // where it ran and what tells it from others; paced compute is said
  std::string machine;  // all but strategy and topology, and how many ranks: what two places share
  int nodes = 0;        // 0: not known
  bool is_ddp = false;
  bool is_fsdp = false;
  bool timing_valid = true;

  const results::CellResult* under(const std::string& strategy) const {
    return cells->under(strategy);  // nullptr: it did not run
  }

  // The row that synchronizes in every micro-batch, where no_sync ran too: baseline, or under FSDP
  // sync_each_batch in its place. nullptr: there is none.
  const results::CellResult* that_syncs_each() const;

  // Whether the row can say something about times: false where it ended well and none were taken,
  // as in a part about memory alone.
  bool has_times(const results::CellResult& cell) const;
};

// Two settings that differ in where the ranks are alone: between nodes, within one.
using AcrossNodes = std::pair<const ClaimSetting*, const ClaimSetting*>;

std::string machine_of(const CellView& cell) {
  const text::TopologyLabel& topology = cell.name.topology;
  return fmt::format("{} {} on {} ranks", cell.part,
                     cell.cell.without({"strategy", "topology"}).written().dump(),
                     topology.nodes * topology.ranks_per_node);
}

const CellResult* ClaimSetting::that_syncs_each() const {
  if (under("no_sync") == nullptr) return nullptr;
  if (const CellResult* baseline = under("baseline")) return baseline;
  return is_fsdp ? under("sync_each_batch") : nullptr;
}

bool ClaimSetting::has_times(const CellResult& cell) const {
  return !cell.is_ok() || cell.step_s || !timing_valid;
}

// Returns the settings in the order of the run; they point into its parts.
std::vector<ClaimSetting> claim_settings(const std::vector<PartView>& parts) {
  std::vector<ClaimSetting> settings;
  for (const PartView& part : parts) {
    for (const Setting& setting : part.settings) {
      const CellView& cell = setting.first();
      if (cell.cell.accumulation_steps() < 2) continue;
      settings.push_back({.cells = &setting,
                          .part = part.name,
                          .place = cell.name.place() + (cell.is_paced() ? " (paced compute)" : ""),
                          .machine = machine_of(cell),
                          .nodes = cell.name.topology.nodes,
                          .is_ddp = cell.cell.wrapper() == "ddp",
                          .is_fsdp = cell.cell.wrapper() == "fsdp",
                          .timing_valid = part.timing_valid});
    }
  }
  return settings;
}

std::vector<AcrossNodes> across_nodes(const std::vector<ClaimSetting>& settings) {
  std::map<std::string, std::vector<const ClaimSetting*>> within;
  const auto counts = [](const ClaimSetting& setting) {
    const CellResult* each = setting.that_syncs_each();
    return each != nullptr && setting.has_times(*each);
  };
  for (const ClaimSetting& setting : settings) {
    if (setting.nodes == 1 && counts(setting)) within[setting.machine].push_back(&setting);
  }
  std::vector<AcrossNodes> pairs;
  for (const ClaimSetting& setting : settings) {
    if (setting.nodes < 2 || !counts(setting)) continue;
    for (const ClaimSetting* one : within[setting.machine]) pairs.emplace_back(&setting, one);
  }
  return pairs;
}

void add(GuideClaim& claim, const ClaimSetting& setting, const Finding& found) {
  claim.evidence.push_back(
      {setting.part, setting.place, found.verdict, found.sentence, found.effect});
}

std::size_t count_of(const GuideClaim& claim, GuideVerdict verdict) {
  return static_cast<std::size_t>(
      std::ranges::count(claim.evidence, verdict, &GuideEvidence::verdict));
}

GuideVerdict verdict_of(const GuideClaim& claim) {
  if (claim.evidence.empty()) return GuideVerdict::NotMeasured;
  const bool one_will_do = claim.statement == GuideStatement::NoSyncRunsOutOfMemory;
  const auto order = one_will_do ? std::array{GuideVerdict::Holds, GuideVerdict::Undecided}
                                 : std::array{GuideVerdict::DoesNotHold, GuideVerdict::Undecided};
  for (const GuideVerdict verdict : order) {
    if (count_of(claim, verdict) > 0) return verdict;
  }
  return one_will_do ? GuideVerdict::DoesNotHold : GuideVerdict::Holds;
}

// "holds in 3 of 4 settings, undecided in 1"
std::string tally(const GuideClaim& claim) {
  std::string text;
  for (const auto& [verdict, word] : {std::pair{GuideVerdict::Holds, "holds"},
                                      std::pair{GuideVerdict::DoesNotHold, "does not hold"},
                                      std::pair{GuideVerdict::Undecided, "undecided"}}) {
    const std::size_t count = count_of(claim, verdict);
    if (count == 0) continue;
    text += text.empty()
                ? fmt::format("{} in {} of {} settings", word, count, claim.evidence.size())
                : fmt::format(", {} in {}", word, count);
  }
  return text;
}

// "from 1.17x [1.15, 1.18] to 2.57x [2.55, 2.58]"; "" without times.
std::string range_of_effects(const GuideClaim& claim) {
  const results::Ratio* least = nullptr;
  const results::Ratio* most = nullptr;
  for (const GuideEvidence& evidence : claim.evidence) {
    if (!evidence.effect) continue;
    const results::Ratio* effect = &*evidence.effect;
    if (least == nullptr || effect->ratio < least->ratio) least = effect;
    if (most == nullptr || effect->ratio > most->ratio) most = effect;
  }
  if (least == nullptr) return "";
  const std::string from = text::ratio_text(*least);
  const std::string to = text::ratio_text(*most);
  return from == to ? ": " + from : fmt::format(": from {} to {}", from, to);
}

std::string summary_of(const GuideClaim& claim) {
  if (claim.evidence.empty()) {
    return fmt::format("this run has no rows for it; {} {}", fmt::join(claim.measured_by, " or "),
                       "measures it");
  }
  if (claim.evidence.size() == 1) {
    return claim.evidence.front().place + ": " + claim.evidence.front().sentence;
  }
  return tally(claim) + range_of_effects(claim);
}

GuideClaim claim_that(GuideStatement statement, const char* text, const char* measured_by) {
  GuideClaim claim;
  claim.statement = statement;
  claim.text = text;
  claim.measured_by = {measured_by};
  return claim;
}

// All claims, before anything was held against them.
std::vector<GuideClaim> claims_of_the_guide() {
  constexpr const char* kOfTimes = "slowdown_table";
  return {
      claim_that(GuideStatement::EveryMicroBatchCosts,
                 "Synchronizing in every micro-batch costs time.", kOfTimes),
      claim_that(GuideStatement::ImproperSavesNothing,
                 "Under DDP, a no_sync that does not enclose the forward saves nothing.", kOfTimes),
      claim_that(GuideStatement::AccumulateDoesAsWell, "accumulate does as well as no_sync.",
                 kOfTimes),
      claim_that(GuideStatement::CostsMoreBetweenNodes,
                 "It costs more between nodes than within one.", kOfTimes),
      claim_that(GuideStatement::NoSyncRunsOutOfMemory,
                 "Under FSDP, no_sync runs out of memory where sync_each_batch fits.",
                 "memory_sweep")};
}

// What one setting says of every claim but the one that takes two settings.
void add_setting(std::vector<GuideClaim>& claims, const ClaimSetting& setting) {
  if (const CellResult* each = setting.that_syncs_each(); each && setting.has_times(*each)) {
    add(claims[0], setting, costs(*each));
  }
  const CellResult* improper = setting.under("no_sync_improper");
  const CellResult* baseline = setting.under("baseline");
  if (setting.is_ddp && improper && baseline && setting.has_times(*improper)) {
    add(claims[1], setting, saves_nothing(*improper, *baseline));
  }
  const CellResult* none = setting.under("no_sync");
  const CellResult* accumulate = setting.under("accumulate");
  if (accumulate && none && setting.has_times(*accumulate)) {
    add(claims[2], setting, does_as_well(*accumulate));
  }
  const CellResult* each = setting.under("sync_each_batch");
  if (setting.is_fsdp && none && each) {
    const bool may_run_out = none->cell.memory_budget_bytes() ||
                             none->status == results::Status::Oom ||
                             each->status == results::Status::Oom;
    if (may_run_out) add(claims[4], setting, runs_out(*none, *each));
  }
}

}  // namespace

std::string to_string(GuideVerdict verdict) {
  switch (verdict) {
    case GuideVerdict::Holds:
      return "holds here";
    case GuideVerdict::DoesNotHold:
      return "does not hold here";
    case GuideVerdict::Undecided:
      return "undecided";
    case GuideVerdict::NotMeasured:
      break;
  }
  return "not measured here";
}

std::vector<GuideClaim> guide_claims(const std::vector<PartView>& parts) {
  std::vector<GuideClaim> claims = claims_of_the_guide();
  const std::vector<ClaimSetting> settings = claim_settings(parts);
  for (const ClaimSetting& setting : settings) add_setting(claims, setting);
  for (const auto& [between, within] : across_nodes(settings)) {
    add(claims[3], *between, costs_more(*between->that_syncs_each(), *within->that_syncs_each()));
  }
  for (GuideClaim& claim : claims) {
    claim.verdict = verdict_of(claim);
    claim.summary = summary_of(claim);
  }
  return claims;
}

}  // namespace gradsync::summary
