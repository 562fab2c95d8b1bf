// What a page may claim about memory: the table, the sentences, the verdict on the guide's rows.
// Covers: guide_memory_table.cpp, memory_finding.cpp, memory_table.cpp.
#include <gmock/gmock.h>

#include "harness/report/findings.h"
#include "harness/report/tables.h"
#include "harness/summary/build_result.h"
#include "tests/harness/results/sample_run.h"
#include "tests/paths.h"

namespace gradsync::report {

using summary::PartView;
using text::Sentences;

namespace {

using nlohmann::json;
using results::Status;
using results::TrialRecord;
using test::sample_memory_run;
using test::sample_mixtral_run;
using test::SampleRun;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<PartView> parts(const SampleRun& run) {
  return summary::parts_of(summary::build_result(run.context, run.plan, run.trials));
}

PartView sweep(const SampleRun& run) {
  return std::move(parts(run).front());
}

std::string sentences(const PartView& part) {
  return text::to_markdown({Sentences{memory_findings(part)}});
}

// The sample with no_sync's peaks changed where it accumulates.
SampleRun with_no_sync_peaks(std::int64_t bytes) {
  SampleRun run = sample_memory_run();
  for (TrialRecord& trial : run.trials) {
    if (trial.cell.strategy() != "no_sync" || trial.cell.accumulation_steps() == 1) continue;
    for (results::RankRecord& rank : trial.ranks) rank.peak_allocated_bytes = bytes;
  }
  return run;
}

TEST(MemoryFinding, SaysWhatIsSavedAndWhatItCosts) {
  const std::string text = sentences(sweep(sample_memory_run()));
  EXPECT_THAT(text, HasSubstr("At accumulation 4, FULL_SHARD, sync_each_batch costs 1.39x"));
  EXPECT_THAT(text,
              HasSubstr("the time of no_sync and saves 32.0 MiB (268.0 MiB against 300.0 MiB)"));
  EXPECT_THAT(text, Not(HasSubstr("accumulation 1,"))) << "both do the same there";
}

TEST(MemoryFinding, SentencesStandInTheOrderOfTheRows) {
  const std::string text = sentences(sweep(sample_memory_run()));
  EXPECT_LT(text.rfind("SHARD_GRAD_OP"), text.find("FULL_SHARD"));
}

TEST(MemoryFinding, WhereNoSyncHoldsLessThatIsSaid) {
  const std::string text = sentences(sweep(with_no_sync_peaks(261 << 20)));
  EXPECT_THAT(text, HasSubstr("FULL_SHARD, sync_each_batch costs"));
  EXPECT_THAT(text, HasSubstr("and holds 7.0 MiB more (268.0 MiB against 261.0 MiB)"));
  EXPECT_THAT(text, Not(HasSubstr("saves")));
}

TEST(MemoryFinding, EqualPeaksAreNoSaving) {
  const std::string text = sentences(sweep(with_no_sync_peaks(268 << 20)));
  EXPECT_THAT(text, HasSubstr("and peaks at the same 268.0 MiB"));
}

TEST(MemoryFinding, WhereOnlyOneFitsNothingIsCompared) {
  const std::string text = sentences(parts(sample_memory_run()).back());
  EXPECT_EQ(text,
            "At accumulation 2, no_sync runs out of a budget of 290.0 MiB in the backward of "
            "micro-batch 2; sync_each_batch fits, with a peak of 268.0 MiB.\n"
            "At accumulation 4, no_sync runs out of a budget of 290.0 MiB in the backward of "
            "micro-batch 2; sync_each_batch fits, with a peak of 268.0 MiB.\n");
}

TEST(MemoryFinding, WithoutTimesOnlyMemoryIsCompared) {
  SampleRun run = sample_memory_run();
  for (TrialRecord& trial : run.trials) trial.model_info->timing_valid = false;
  const std::string text = sentences(sweep(run));
  EXPECT_THAT(text, HasSubstr("FULL_SHARD, sync_each_batch saves 32.0 MiB"));
  EXPECT_THAT(text, Not(HasSubstr("the time of")));
}

TEST(MemoryFinding, ATimeOfOnePairIsSaidToBeThatAndNoMore) {
  SampleRun run = sample_memory_run();
  std::erase_if(run.trials, [](const TrialRecord& trial) { return trial.launch > 0; });
  EXPECT_THAT(sentences(sweep(run)),
              HasSubstr("took 1.33x the time of no_sync, in the one launch that ran, and "
                        "saves 32.0 MiB"));
}

TEST(MemoryTable, ADdpPlanOverAccumulationIsNotAboutMemory) {
  SampleRun run = test::sample_run();
  run.trials.front().cell = run.trials.front().cell.with("accumulation_steps", 8);
  EXPECT_FALSE(parts(run).front().is_about_memory);
  EXPECT_TRUE(parts(sample_memory_run()).front().is_about_memory);
  EXPECT_TRUE(parts(sample_mixtral_run()).front().is_about_memory);
}

TEST(MemoryTable, ARowThatFailedHasItsWordAndNoNumbers) {
  SampleRun run = sample_memory_run();
  for (TrialRecord& trial : run.trials) {
    if (trial.cell.strategy() != "no_sync" || trial.cell.accumulation_steps() != 4) continue;
    if (trial.launch == 1) trial.status = Status::Failed, trial.reason = "killed";
  }
  EXPECT_THAT(text::to_markdown(memory_table(sweep(run))),
              HasSubstr("|     4 | no_sync         |      - |           - | failed |"));
}

TEST(MemoryTable, PredictionsAreHeldAgainstWhatWasMeasured) {
  PartView part = sweep(sample_memory_run());
  EXPECT_THAT(text::to_markdown(memory_table(part)), Not(HasSubstr("predicted")));
  for (results::CellResult& cell : part.cells) {
    cell.predicted_peak_allocated_bytes = cell.peak_allocated_bytes;
  }
  EXPECT_THAT(text::to_markdown(memory_table(part)), HasSubstr("exact to the byte in 12 rows"));
  auto& first = part.cells.front().predicted_peak_allocated_bytes;
  first = *first - 2048;
  EXPECT_THAT(text::to_markdown(memory_table(part)),
              HasSubstr("exact to the byte in 11 of 12 rows, off by 2.0 KiB"));
}

const std::optional<PublishedMemory>& published() {
  static const References references =
      read_references(test::path_of("source") + "/results/reference");
  return references.memory_table;
}

std::string guide_page(const SampleRun& run) {
  return text::to_markdown(guide_memory_table(parts(run), published()));
}

TEST(GuideMemoryTable, WhereAllRowsAgreeItIsConsistentAndNoMore) {
  const std::string text = guide_page(sample_mixtral_run());
  EXPECT_THAT(text, HasSubstr("consistent with the published table"));
  EXPECT_THAT(text, HasSubstr("5.8 to 10.5 GiB above the highest peak allocated"));
  EXPECT_THAT(text, HasSubstr("bfloat16 parameters"));
  EXPECT_THAT(text, HasSubstr("1 x 16 tokens per micro-batch"));
  EXPECT_THAT(text, HasSubstr("Not published: dtype, optimizer, sequence length"));
  EXPECT_THAT(text, Not(HasSubstr("equal")));
}

TEST(GuideMemoryTable, ARowThatFitsWhereThePublishedOneDidNotDiffers) {
  SampleRun run = sample_mixtral_run();
  TrialRecord& row = run.trials[1];
  const int accumulation = row.cell.accumulation_steps();
  ASSERT_EQ(accumulation, 2);
  const results::Parameters cell = row.cell;
  row = run.trials[0];
  row.cell = cell;
  const std::string text = guide_page(run);
  EXPECT_THAT(text, HasSubstr("differs from the published table"));
  EXPECT_THAT(text, HasSubstr("no_sync (accum=2): published OOM, here fits"));
  EXPECT_THAT(text, Not(HasSubstr("consistent")));
}

TEST(GuideMemoryTable, TensorsOfMoreThanThePublishedNumberDiffer) {
  SampleRun run = sample_mixtral_run();
  run.trials[0].ranks[0].peak_allocated_bytes = std::int64_t{70} << 30;
  EXPECT_THAT(guide_page(run), HasSubstr("no_sync (accum=1): published 69G, here the tensors alone "
                                         "take 70.00 GiB"));
}

TEST(GuideMemoryTable, WithoutARowThereIsNoVerdict) {
  SampleRun run = sample_mixtral_run();
  run.trials.pop_back();
  const std::string text = guide_page(run);
  EXPECT_THAT(text, HasSubstr("No verdict: not measured here: no_sync disabled (accum=16)"));
  EXPECT_THAT(text, HasSubstr("| not run "));
  EXPECT_THAT(text, Not(HasSubstr("consistent")));
}

TEST(GuideMemoryTable, OtherWorldsModelsAndWrappersHaveNone) {
  for (const auto& [field, value] :
       {std::pair{"topology", "1x2"}, std::pair{"model", "mixtral_mini"},
        std::pair{"wrapper", "ddp"}}) {
    SampleRun run = sample_mixtral_run();
    for (TrialRecord& trial : run.trials) trial.cell = trial.cell.with(field, value);
    EXPECT_EQ(guide_page(run), "") << field;
  }
}

}  // namespace
}  // namespace gradsync::report
