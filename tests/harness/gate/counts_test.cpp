#include "harness/gate/counts.h"

#include <gmock/gmock.h>

#include <algorithm>

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

// What the candidate does whose no_sync is in vain: it runs the baseline's collectives.
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

std::vector<std::string> sentences(const TrialRecord& baseline, const TrialRecord& candidate) {
  std::vector<std::string> texts;
  for (const CountDifference& difference : count_differences(baseline, candidate)) {
    texts.push_back(difference.sentence);
  }
  return texts;
}

// The kind of the first difference; "" where there is none.
std::string first_kind(const RowCounts& counts) {
  return counts.differences.empty() ? "" : counts.differences.front().what;
}

std::vector<std::string> sentences(const TrialRecord& candidate) {
  return sentences(trial_of("no_sync"), candidate);
}

TEST(CountDifferences, TimesAreNone) {
  TrialRecord slower = sample_trial("", sample_cell("2x1_1gbit", "no_sync"), 3, {7.0});
  TrialRecord same = sample_trial("", sample_cell("2x1_1gbit", "no_sync"), 0, {0.9, 0.91});
  for (RankRecord& rank : slower.ranks) {
    for (TimelineEvent& event : rank.timeline_events) event.end_s += 1;
  }
  EXPECT_THAT(sentences(same, slower), IsEmpty());
}

TEST(CountDifferences, ALostNoSyncIsNamedWhereItBegins) {
  EXPECT_THAT(count_differences(trial_of("no_sync"), lost_no_sync()),
              ElementsAre(CountDifference{"events",
                                          "micro-batch 1: 14 more all_reduces, 8.3 MiB: no_sync "
                                          "has no effect"},
                          CountDifference{"collectives",
                                          "per step: all_reduce 56 (1732800000 bytes) where the "
                                          "baseline has 14 (433200000 bytes)"}));
}

TEST(CountDifferences, ALostNoSyncMayBeginLater) {
  TrialRecord later = lost_no_sync();
  for (RankRecord& rank : later.ranks) {
    std::erase_if(rank.timeline_events,
                  [](const TimelineEvent& event) { return event.micro_batch == 0; });
  }
  EXPECT_THAT(
      sentences(later),
      ::testing::Contains("micro-batch 2: 14 more all_reduces, 8.3 MiB: no_sync has no effect"));
}

TEST(CountDifferences, OneSmallAllReduceInAnEarlyMicroBatchIsNoLostNoSync) {
  const TrialRecord extra = changed([](RankRecord& rank) {
    rank.timeline_events.insert(rank.timeline_events.begin(), {"all_reduce", 4, 0, 0, 0.1, 0.2});
  });
  EXPECT_THAT(sentences(extra), ElementsAre("micro-batch 1: 1 more all_reduce, 4 B"));
}

TEST(CountDifferences, OneMoreAmongOthersSaysWhereTheyPart) {
  const TrialRecord extra = changed([](RankRecord& rank) {
    rank.timeline_events.push_back({"all_reduce", 4, 3, 14, 0.1, 0.2});
  });
  EXPECT_THAT(sentences(extra),
              ElementsAre("micro-batch 4: 1 more all_reduce, 4 B, after 14 that agree"));
}

TEST(CountDifferences, ARankThatDiffersAloneIsNamed) {
  TrialRecord extra = trial_of("no_sync");
  extra.ranks[1].timeline_events.push_back({"broadcast", 4, 3, -1, 0.1, 0.2});
  EXPECT_THAT(sentences(extra),
              ElementsAre("rank 1, micro-batch 4: 1 more broadcast, 4 B, after 14 that agree"));
}

TEST(CountDifferences, TheEarlierOfTwoRanksCounts) {
  TrialRecord extra = trial_of("no_sync");
  extra.ranks[0].timeline_events.push_back({"broadcast", 4, 3, -1, 0.1, 0.2});
  extra.ranks[1].timeline_events.push_back({"broadcast", 4, 1, -1, 0.1, 0.2});
  EXPECT_THAT(sentences(extra), ElementsAre("rank 1, micro-batch 2: 1 more broadcast, 4 B"));
}

TEST(CountDifferences, FewerIsADifferenceToo) {
  const TrialRecord fewer = changed([](RankRecord& rank) { rank.timeline_events.pop_back(); });
  EXPECT_THAT(sentences(fewer),
              ElementsAre("micro-batch 4: 1 fewer all_reduce, 604.4 KiB, after 13 that agree; if "
                          "that is meant, renew the baseline"));
  const TrialRecord none = changed([](RankRecord& rank) { rank.timeline_events.clear(); });
  EXPECT_THAT(sentences(none), ElementsAre("micro-batch 4: 14 fewer all_reduces, 8.3 MiB; if that "
                                           "is meant, renew the baseline"));
}

TEST(CountDifferences, FewerOfAsManyBytesAreSaidToBeThat) {
  const TrialRecord merged = changed([](RankRecord& rank) {
    const std::int64_t bytes = rank.timeline_events.back().bytes;
    rank.timeline_events.pop_back();
    rank.timeline_events.back().bytes += bytes;
  });
  EXPECT_THAT(sentences(merged),
              ElementsAre("micro-batch 4: 1 fewer all_reduce, as many bytes, after 12 that agree; "
                          "if that is meant, renew the baseline"));
}

TEST(CountDifferences, OneOperationForAnotherNamesBoth) {
  const TrialRecord other = changed([](RankRecord& rank) {
    rank.timeline_events[2].op = "reduce_scatter";
    rank.timeline_events[2].bytes = 1024;
  });
  EXPECT_THAT(sentences(other),
              ElementsAre("micro-batch 4: 1 fewer all_reduce, 604.4 KiB and 1 more reduce_scatter, "
                          "1.0 KiB, after 2 that agree"));
}

TEST(CountDifferences, ABucketOfAnotherSizeIsNamed) {
  const TrialRecord larger = changed([](RankRecord& rank) { rank.timeline_events[2].bytes *= 2; });
  EXPECT_THAT(sentences(larger), ElementsAre("micro-batch 4, bucket 3: all_reduce of 1.2 MiB where "
                                             "the baseline has 604.4 KiB"));
  const TrialRecord by_one = changed([](RankRecord& rank) { ++rank.timeline_events[2].bytes; });
  EXPECT_THAT(sentences(by_one),
              ElementsAre("micro-batch 4, bucket 3: all_reduce of 618858 bytes where the baseline "
                          "has 618857 bytes"));
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
  EXPECT_THAT(sentences(baseline, candidate),
              ElementsAre("micro-batch 4, collective 14: broadcast of 512 B where the baseline has "
                          "all_reduce of 604.4 KiB"));
}

TEST(CountDifferences, OneByteMoreAtPeakIsSeenAndItsCategoryNamed) {
  TrialRecord more = trial_of("no_sync");
  ++*more.ranks[1].peak_allocated_bytes;
  ++more.ranks[1].peak_by_category["activation"];
  EXPECT_THAT(count_differences(trial_of("no_sync"), more),
              ElementsAre(CountDifference{"peak_allocated_bytes",
                                          "peak of rank 1 is 1 byte more (activation)"}));
}

TEST(CountDifferences, OfAPeakOnlyWhatGrewIsNamedLargestFirst) {
  const TrialRecord more = changed([](RankRecord& rank) {
    rank.peak_allocated_bytes = 1050;
    rank.peak_by_category = {{"activation", 610}, {"communication", 60}, {"optimizer_state", 380}};
  });
  EXPECT_THAT(sentences(more), ElementsAre("peak of every rank is 50 bytes more (communication 60, "
                                           "activation 10)"));
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
  EXPECT_THAT(sentences(baseline, more),
              ElementsAre("peak of rank 0 is 1 byte more (activation); host peak of rank 1 is 1 "
                          "byte more (optimizer_state)"));
}

TEST(CountDifferences, LessAtPeakOrAnUnknownPeakIsADifference) {
  TrialRecord less = trial_of("no_sync");
  less.ranks[0].peak_allocated_bytes = 998;
  less.ranks[0].peak_by_category["optimizer_state"] = 398;
  less.ranks[1].peak_allocated_bytes.reset();
  less.ranks[1].peak_by_category.clear();
  EXPECT_THAT(sentences(less), ElementsAre("peak of rank 0 is 2 bytes less (optimizer_state); peak "
                                           "of rank 1 is known of the baseline only"));
}

TEST(CountDifferences, BucketsGradientsAndRanksCount) {
  TrialRecord other = trial_of("no_sync");
  other.ledger.buckets = 15;
  other.model_info->gradient_bytes = 8664004;
  EXPECT_THAT(sentences(other), ElementsAre("buckets: 15 where the baseline has 14",
                                            "gradients of 8664004 bytes where the baseline has "
                                            "8664000"));
  other = trial_of("no_sync");
  other.ranks.push_back(other.ranks.back());
  EXPECT_THAT(sentences(other), ElementsAre("3 ranks where the baseline has 2"));
}

TEST(CountDifferences, AStatusIsOneAndAnInvalidTrialStillSaysWhy) {
  TrialRecord invalid = lost_no_sync();
  invalid.status = Status::Invalid;
  invalid.reason = "ledger: step 1, micro-batch 1: 14 all_reduces, declared 0";
  const auto texts = sentences(invalid);
  ASSERT_EQ(texts.size(), 3U);
  EXPECT_EQ(texts.front(), "micro-batch 1: 14 more all_reduces, 8.3 MiB: no_sync has no effect");
  EXPECT_EQ(texts.back(),
            "the candidate is invalid (ledger: step 1, micro-batch 1: 14 all_reduces, declared 0) "
            "where the baseline is ok");
  TrialRecord out_of_memory = trial_of("no_sync");
  out_of_memory.status = Status::Oom;
  out_of_memory.reason = "[rank 0/2 node0] micro-batch 2, backward";
  out_of_memory.ranks.clear();
  EXPECT_THAT(sentences(out_of_memory),
              ElementsAre("the candidate is oom ([rank 0/2 node0] micro-batch 2, backward) where "
                          "the baseline is ok"));
  EXPECT_THAT(sentences(out_of_memory, out_of_memory), IsEmpty());
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
  EXPECT_EQ(counts.unfit_because,
            "the baseline's own trials differ: peak of rank 0 is 1 byte more");
  candidate.ledger.buckets = 13;
  counts = compare_counts({&good, &other}, {&candidate});
  EXPECT_THAT(counts.differences,
              ElementsAre(CountDifference{"buckets", "buckets: 13 where the baseline has 14"}));
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
  EXPECT_EQ(counts.no_peaks_because,
            "the baseline's own starts differ: peak of rank 0 is 1 byte more");
}

TEST(CompareCounts, APeakThatOneJobDoesNotKnowIsNotHeld) {
  const TrialRecord good = trial_of("no_sync");
  TrialRecord without = good;
  for (results::RankRecord& rank : without.ranks) rank.peak_allocated_bytes.reset();
  EXPECT_EQ(first_kind(compare_counts({&good}, {&without})), kPeakDifference);
  RowCounts counts = compare_counts({&good}, {&without}, Peaks::WhereSteady);
  EXPECT_THAT(counts.differences, IsEmpty());
  EXPECT_EQ(counts.no_peaks_because, "that of the candidate is not known");
  counts = compare_counts({&without}, {&without}, Peaks::WhereSteady);
  EXPECT_EQ(counts.no_peaks_because, "") << "nobody asks for what nobody knows";
}

TEST(CompareCounts, WithoutATrialToHoldItAgainstARowIsUnfit) {
  const TrialRecord good = trial_of("no_sync");
  TrialRecord failed = good;
  failed.status = Status::Failed;
  failed.reason = "killed by signal 9";
  TrialRecord skipped = good;
  skipped.status = Status::Skipped;
  skipped.reason = "no namespaces";
  EXPECT_EQ(compare_counts({&failed}, {&good}).unfit_because,
            "the baseline is failed (killed by signal 9): nothing to compare");
  EXPECT_EQ(compare_counts({&good}, {&skipped}).unfit_because,
            "the candidate is skipped (no namespaces): nothing to compare");
  EXPECT_EQ(compare_counts({}, {&good}).unfit_because, "the baseline has no trial of this row");
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
  EXPECT_EQ(missing[0].difference,
            (CountDifference{"row", "the candidate does not have this row"}));
  EXPECT_EQ(missing[1].row, added);
  EXPECT_EQ(missing[1].difference.what, "row");
  EXPECT_THAT(missing_rows({shared}, {shared}), IsEmpty());
}

}  // namespace
}  // namespace gradsync::gate
