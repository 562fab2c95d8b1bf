#include "harness/gate/counts.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/harness/report/golden.h"
#include "tests/harness/results/sample_run.h"

namespace gradsync::gate {
namespace {

using results::RankRecord;
using results::Status;
using results::TimelineEvent;
using results::TrialRecord;
using test::sample_cell;
using test::sample_trial;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::size_t kBuckets = 14;  // of 618857 bytes each, in each micro-batch that reduces

// Two ranks, four micro-batches; no_sync reduces in the last alone. Every rank's peak is known.
TrialRecord trial_of(const std::string& strategy) {
  TrialRecord trial = sample_trial("", sample_cell("2x1_1gbit", strategy), 0, {0.9, 0.91});
  for (RankRecord& rank : trial.ranks) {
    rank.peak_allocated_bytes = 1000;
    rank.peak_by_category = {{"activation", 600}, {"optimizer_state", 400}};
  }
  trial.model_info->gradient_bytes = 8664000;
  return trial;
}

// Returns a candidate whose no_sync has no effect: it runs the baseline's collectives.
TrialRecord lost_no_sync() {
  TrialRecord trial = trial_of("baseline");
  trial.cell = trial.cell.with("strategy", "no_sync");
  return trial;
}

template <typename Change>
TrialRecord changed(Change change) {
  TrialRecord trial = trial_of("no_sync");
  for (RankRecord& rank : trial.ranks) change(rank);
  return trial;
}

using Kinds = std::vector<std::string>;

// Expects differences of these kinds, with the sentences of the page.
void expect_differences(const std::vector<CountDifference>& found, const Kinds& kinds) {
  Kinds found_kinds;
  std::vector<std::string> said;
  for (const CountDifference& difference : found) {
    found_kinds.push_back(difference.what);
    said.push_back(difference.sentence);
  }
  EXPECT_EQ(found_kinds, kinds);
  test::expect_phrases("gate", said);
}

// Expects the same for a candidate beside a baseline that synchronizes in the last micro-batch
// alone, by no_sync.
void expect_differences(const TrialRecord& candidate, const Kinds& kinds) {
  expect_differences(count_differences(trial_of("no_sync"), candidate), kinds);
}

// The kind of the first difference; "" where there is none.
std::string first_kind(const RowCounts& counts) {
  return counts.differences.empty() ? "" : counts.differences.front().what;
}

TEST(CountDifferences, TimesAreNone) {
  TrialRecord slower = sample_trial("", sample_cell("2x1_1gbit", "no_sync"), 3, {7.0});
  TrialRecord same = sample_trial("", sample_cell("2x1_1gbit", "no_sync"), 0, {0.9, 0.91});
  for (RankRecord& rank : slower.ranks) {
    for (TimelineEvent& event : rank.timeline_events) event.end_s += 1;
  }
  EXPECT_THAT(count_differences(same, slower), IsEmpty());
}

TEST(CountDifferences, ALostNoSyncIsNamedWhereItBegins) {
  expect_differences(lost_no_sync(), {"events", "collectives"});
}

TEST(CountDifferences, ALostNoSyncMayBeginLater) {
  TrialRecord later = lost_no_sync();
  for (RankRecord& rank : later.ranks) {
    std::erase_if(rank.timeline_events,
                  [](const TimelineEvent& event) { return event.micro_batch == 0; });
  }
  expect_differences(later, {"events", "collectives"});
}

TEST(CountDifferences, OneSmallAllReduceInAnEarlyMicroBatchIsNoLostNoSync) {
  const TrialRecord extra = changed([](RankRecord& rank) {
    rank.timeline_events.insert(rank.timeline_events.begin(), {"all_reduce", 4, 0, 0, 0.1, 0.2});
  });
  expect_differences(extra, {"events"});
}

TEST(CountDifferences, OneMoreAmongOthersSaysWhereTheyPart) {
  const TrialRecord extra = changed([](RankRecord& rank) {
    rank.timeline_events.push_back({"all_reduce", 4, 3, 14, 0.1, 0.2});
  });
  expect_differences(extra, {"events"});
}

TEST(CountDifferences, ARankThatDiffersAloneIsNamed) {
  TrialRecord extra = trial_of("no_sync");
  extra.ranks[1].timeline_events.push_back({"broadcast", 4, 3, -1, 0.1, 0.2});
  expect_differences(extra, {"events"});
}

TEST(CountDifferences, TheEarlierOfTwoRanksCounts) {
  TrialRecord extra = trial_of("no_sync");
  extra.ranks[0].timeline_events.push_back({"broadcast", 4, 3, -1, 0.1, 0.2});
  extra.ranks[1].timeline_events.push_back({"broadcast", 4, 1, -1, 0.1, 0.2});
  expect_differences(extra, {"events"});
}

TEST(CountDifferences, FewerIsADifferenceToo) {
  const TrialRecord fewer = changed([](RankRecord& rank) { rank.timeline_events.pop_back(); });
  expect_differences(fewer, {"events"});
  const TrialRecord none = changed([](RankRecord& rank) { rank.timeline_events.clear(); });
  expect_differences(none, {"events"});
}

TEST(CountDifferences, FewerOfAsManyBytesAreSaidToBeThat) {
  const TrialRecord merged = changed([](RankRecord& rank) {
    const std::int64_t bytes = rank.timeline_events.back().bytes;
    rank.timeline_events.pop_back();
    rank.timeline_events.back().bytes += bytes;
  });
  expect_differences(merged, {"events"});
}

TEST(CountDifferences, OneOperationForAnotherNamesBoth) {
  const TrialRecord other = changed([](RankRecord& rank) {
    rank.timeline_events[2].op = "reduce_scatter";
    rank.timeline_events[2].bytes = 1024;
  });
  expect_differences(other, {"events"});
}

TEST(CountDifferences, ABucketOfAnotherSizeIsNamed) {
  const TrialRecord larger = changed([](RankRecord& rank) { rank.timeline_events[2].bytes *= 2; });
  expect_differences(larger, {"events"});
  const TrialRecord by_one = changed([](RankRecord& rank) { ++rank.timeline_events[2].bytes; });
  expect_differences(by_one, {"events"});
}

TEST(CountDifferences, AnotherOrderIsADifference) {
  TrialRecord baseline = trial_of("no_sync");
  for (RankRecord& rank : baseline.ranks) {
    rank.timeline_events.push_back({"broadcast", 512, 3, -1, 0.1, 0.2});
  }
  TrialRecord candidate = baseline;
  for (RankRecord& rank : candidate.ranks) {
    std::swap(rank.timeline_events[kBuckets - 1], rank.timeline_events[kBuckets]);
  }
  expect_differences(count_differences(baseline, candidate), {"events"});
}

TEST(CountDifferences, OneByteMoreAtPeakIsSeenAndItsCategoryNamed) {
  TrialRecord more = trial_of("no_sync");
  ++*more.ranks[1].peak_allocated_bytes;
  ++more.ranks[1].peak_by_category["activation"];
  expect_differences(more, {"peak_allocated_bytes"});
}

TEST(CountDifferences, OfAPeakOnlyWhatGrewIsNamedLargestFirst) {
  const TrialRecord more = changed([](RankRecord& rank) {
    rank.peak_allocated_bytes = 1050;
    rank.peak_by_category = {{"activation", 610}, {"communication", 60}, {"optimizer_state", 380}};
  });
  expect_differences(more, {"peak_allocated_bytes"});
}

TEST(CountDifferences, WhatIsOffloadedHasAPeakOfItsOwn) {
  TrialRecord baseline = trial_of("no_sync");
  baseline.ranks[1].host_peak_allocated_bytes = 4000;
  baseline.ranks[1].host_peak_by_category = {{"optimizer_state", 4000}};
  TrialRecord more = baseline;
  more.ranks[1].host_peak_allocated_bytes = 4001;
  more.ranks[1].host_peak_by_category = {{"optimizer_state", 4001}};
  ++*more.ranks[0].peak_allocated_bytes;
  ++more.ranks[0].peak_by_category["activation"];
  expect_differences(count_differences(baseline, more), {"peak_allocated_bytes"});
}

TEST(CountDifferences, LessAtPeakOrAnUnknownPeakIsADifference) {
  TrialRecord less = trial_of("no_sync");
  less.ranks[0].peak_allocated_bytes = 998;
  less.ranks[0].peak_by_category["optimizer_state"] = 398;
  less.ranks[1].peak_allocated_bytes.reset();
  less.ranks[1].peak_by_category.clear();
  expect_differences(less, {"peak_allocated_bytes"});
}

TEST(CountDifferences, BucketsGradientsAndRanksCount) {
  TrialRecord other = trial_of("no_sync");
  other.ledger.buckets = 15;
  other.model_info->gradient_bytes = 8664004;
  expect_differences(other, {"buckets", "gradient_bytes"});
  other = trial_of("no_sync");
  other.ranks.push_back(other.ranks.back());
  expect_differences(other, {"ranks"});
}

TEST(CountDifferences, AStatusIsOneAndAnInvalidTrialStillSaysWhy) {
  TrialRecord invalid = lost_no_sync();
  invalid.status = Status::Invalid;
  invalid.reason = "ledger: step 1, micro-batch 1: 14 all_reduces, declared 0";
  expect_differences(invalid, {"events", "collectives", "status"});
  TrialRecord out_of_memory = trial_of("no_sync");
  out_of_memory.status = Status::Oom;
  out_of_memory.reason = "[rank 0/2 node0] micro-batch 2, backward";
  out_of_memory.ranks.clear();
  expect_differences(out_of_memory, {"status"});
  EXPECT_THAT(count_differences(out_of_memory, out_of_memory), IsEmpty());
}

TEST(CompareCounts, EveryTrialOfTheCandidateMustAgree) {
  const TrialRecord good = trial_of("no_sync");
  const TrialRecord bad = lost_no_sync();
  EXPECT_THAT(compare_counts({&good, &good}, {&good, &good}).differences, IsEmpty());
  const RowCounts counts = compare_counts({&good}, {&good, &bad});
  EXPECT_EQ(first_kind(counts), "events");
  EXPECT_EQ(counts.unfit_because, "");
}

TEST(CompareCounts, ABaselineThatDiffersFromItselfIsUnfitInThatKindOnly) {
  const TrialRecord good = trial_of("no_sync");
  TrialRecord other = good;
  ++*other.ranks[0].peak_allocated_bytes;
  TrialRecord candidate = good;
  *candidate.ranks[0].peak_allocated_bytes += 2;
  RowCounts counts = compare_counts({&good, &other}, {&candidate});
  EXPECT_THAT(counts.differences, IsEmpty());
  const std::string own = counts.unfit_because;
  candidate.ledger.buckets = 13;
  counts = compare_counts({&good, &other}, {&candidate});
  expect_differences(counts.differences, {"buckets"});
  test::expect_phrases("gate", {own});
}

TEST(CompareCounts, APeakOfAJobIsHeldOnlyWhereTheBaselineHasItAgain) {
  const TrialRecord good = trial_of("no_sync");
  TrialRecord larger = good;
  ++*larger.ranks[0].peak_allocated_bytes;
  RowCounts counts = compare_counts({&good, &good}, {&larger}, Peaks::WhereSteady);
  EXPECT_EQ(first_kind(counts), kPeakDifference);
  counts = compare_counts({&good, &larger}, {&larger}, Peaks::WhereSteady);
  EXPECT_THAT(counts.differences, IsEmpty());
  EXPECT_EQ(counts.unfit_because, "");
  test::expect_phrases("gate", {counts.no_peaks_because});
}

TEST(CompareCounts, APeakThatOneJobDoesNotKnowIsNotHeld) {
  const TrialRecord good = trial_of("no_sync");
  TrialRecord without = good;
  for (results::RankRecord& rank : without.ranks) rank.peak_allocated_bytes.reset();
  EXPECT_EQ(first_kind(compare_counts({&good}, {&without})), kPeakDifference);
  RowCounts counts = compare_counts({&good}, {&without}, Peaks::WhereSteady);
  EXPECT_THAT(counts.differences, IsEmpty());
  test::expect_phrases("gate", {counts.no_peaks_because});
  counts = compare_counts({&without}, {&without}, Peaks::WhereSteady);
  EXPECT_EQ(counts.no_peaks_because, "") << "peaks that no build knows are not asked for";
}

TEST(CompareCounts, WithoutATrialToHoldItAgainstARowIsUnfit) {
  const TrialRecord good = trial_of("no_sync");
  TrialRecord failed = good;
  failed.status = Status::Failed;
  failed.reason = "killed by signal 9";
  TrialRecord skipped = good;
  skipped.status = Status::Skipped;
  skipped.reason = "no namespaces";
  test::expect_phrases("gate", {compare_counts({&failed}, {&good}).unfit_because,
                                compare_counts({&good}, {&skipped}).unfit_because,
                                compare_counts({}, {&good}).unfit_because});
  EXPECT_THAT(compare_counts({&failed, &good}, {&good}).differences, IsEmpty());
  EXPECT_EQ(first_kind(compare_counts({&good}, {&failed})), "status");
}

TEST(MissingRows, OfEitherSideAreNamed) {
  const Row shared{"", sample_cell("1x2", "no_sync")};
  const Row old{"", sample_cell("1x2", "baseline")};
  const Row added{"", sample_cell("1x2", "accumulate")};
  const auto missing = missing_rows({shared, old}, {shared, added});
  ASSERT_EQ(missing.size(), 2U);
  EXPECT_EQ(missing[0].row, old);
  expect_differences({missing[0].difference, missing[1].difference}, {"row", "row"});
  EXPECT_EQ(missing[1].row, added);
  EXPECT_THAT(missing_rows({shared}, {shared}), IsEmpty());
}

}  // namespace
}  // namespace gradsync::gate
