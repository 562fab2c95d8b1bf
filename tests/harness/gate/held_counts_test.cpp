// Covers: held_counts_file.cpp, held_page.cpp.
#include "harness/gate/held_counts.h"

#include <gmock/gmock.h>

#include <fstream>

#include "harness/base/errors.h"
#include "harness/gate/held_page.h"
#include "tests/harness/report/golden.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::gate {
namespace {

using nlohmann::json;
using results::TimelineEvent;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

constexpr int kMicroBatches = 4;

TimelineEvent event(const char* op, std::int64_t bytes, int micro_batch) {
  TimelineEvent event;
  event.op = op;
  event.bytes = bytes;
  event.micro_batch = micro_batch;
  return event;
}

// Two buckets in each of the last `syncs` micro-batches, and a logged loss.
RecordedStep step_of(int rank, int syncs) {
  RecordedStep step{rank, kMicroBatches, syncs, {}, Unknown{"not counted"}};
  for (int i = kMicroBatches - syncs; i < kMicroBatches; ++i) {
    step.events.push_back(event("all_reduce", 1000, i));
    step.events.push_back(event("all_reduce", 24, i));
  }
  step.events.push_back(event("all_reduce", 4, -1));
  return step;
}

HeldCounts counts_of(int syncs) {
  return held_counts(2, {step_of(0, syncs), step_of(1, syncs)});
}

using Kinds = std::vector<std::string>;

// Expects differences of these kinds, with the sentences of the page.
void expect_differences(const HeldCounts& held, const HeldCounts& seen, const Kinds& kinds) {
  Kinds found;
  std::vector<std::string> said;
  for (const CountDifference& difference : held_differences(held, seen).differences) {
    found.push_back(difference.what);
    said.push_back(difference.sentence);
  }
  EXPECT_EQ(found, kinds);
  if (!said.empty()) test::expect_phrases("gate", said);
}

class FileTest : public testing::Test {
 protected:
  std::string path() const { return folder_.path() + "/counts.json"; }

  HeldCounts read(const json& value) const {
    std::ofstream(path()) << value;
    return read_held_counts(path());
  }

  static json written() { return json::parse(held_counts_text(counts_of(1))); }

  void expect_refused(const char* pointer, const json& value, const std::string& expected) const {
    json changed = written();
    changed[json::json_pointer(pointer)] = value;
    EXPECT_THAT([&] { read(changed); }, ThrowsMessage<ConfigError>(HasSubstr(expected)));
  }

 private:
  test::TemporaryFolder folder_;
};

TEST(HeldCountsTest, RanksAndMicroBatchesThatDoTheSameStandTogether) {
  const HeldCounts counts = counts_of(1);
  ASSERT_THAT(counts.ranks, SizeIs(1));
  const RankCounts& both = counts.ranks[0];
  EXPECT_THAT(both.ranks, ElementsAre(0, 1));
  EXPECT_THAT(both.micro_batches,
              ElementsAre(MicroBatchCounts{3, {}},
                          MicroBatchCounts{1, {{"all_reduce", 24, 1}, {"all_reduce", 1000, 1}}}));
  EXPECT_THAT(both.outside, ElementsAre(SizedCollectives{"all_reduce", 4, 1}));
  EXPECT_EQ(both.per_step.at("all_reduce"), (OpTotal{3, 1028}));
  EXPECT_THAT(held_counts(2, {step_of(0, 1), step_of(1, 2)}).ranks, SizeIs(2));
}

TEST(HeldCountsTest, TheOrderInsideAMicroBatchIsChance) {
  RecordedStep other = step_of(0, 1);
  std::swap(other.events[0], other.events[1]);
  EXPECT_EQ(held_counts(1, {step_of(0, 1)}), held_counts(1, {other}));
}

TEST(HeldCountsTest, ALostNoSyncIsToldMicroBatchByMicroBatch) {
  expect_differences(counts_of(1), counts_of(1), {});
  expect_differences(counts_of(1), counts_of(4), {"events", "collectives", "syncs"});
}

TEST(HeldCountsTest, ADifferenceNamesItsRank) {
  const HeldCounts seen = held_counts(2, {step_of(0, 1), step_of(1, 2)});
  expect_differences(counts_of(1), seen, {"events", "syncs"});
}

TEST(HeldCountsTest, AByteMoreAndAMicroBatchMoreDiffer) {
  RecordedStep larger = step_of(0, 1);
  larger.events[0].bytes += 1;
  expect_differences(held_counts(1, {step_of(0, 1)}), held_counts(1, {larger}),
                     {"events", "collectives"});
  RecordedStep longer = step_of(0, 1);
  longer.micro_batches = 5;
  expect_differences(held_counts(1, {step_of(0, 1)}), held_counts(1, {longer}), {"micro_batches"});
}

TEST(HeldCountsTest, OtherRanksAreAnotherJob) {
  expect_differences(counts_of(1), held_counts(4, {step_of(0, 1)}), {"ranks", "world_size"});
}

TEST(HeldCountsTest, APeakIsHeldWhereBothKnowIt) {
  const auto with_peak = [](std::int64_t bytes) {
    RecordedStep step = step_of(0, 1);
    step.peak_allocated_bytes = bytes;
    return held_counts(1, {step});
  };
  expect_differences(with_peak(10), with_peak(11), {"peak_allocated_bytes"});
  RecordedStep unknown = step_of(0, 1);
  unknown.peak_allocated_bytes = Unknown{"it is chance"};
  const HeldCounts without = held_counts(1, {unknown});
  expect_differences(with_peak(10), without, {});
  const std::vector<std::string> of_job = held_differences(with_peak(10), without).notes;
  const std::vector<std::string> of_file = held_differences(without, with_peak(10)).notes;
  ASSERT_THAT(of_job, SizeIs(1));
  ASSERT_THAT(of_file, SizeIs(1));
  test::expect_phrases("gate", {of_job[0], of_file[0]});
  EXPECT_THAT(written_text("counts.json", without), HasSubstr(": it is chance"));
}

TEST_F(FileTest, IsReadBackAsItWasWritten) {
  HeldCounts counts = held_counts(2, {step_of(0, 1), step_of(1, 4)});
  counts.ranks[0].peak_allocated_bytes = 7;
  counts.ranks[1].outside[0].bytes.reset();
  counts.ranks[1].per_step["all_reduce"].bytes.reset();
  counts.gpus_of_paper = "8xh100";
  std::ofstream(path()) << held_counts_text(counts);
  EXPECT_EQ(read_held_counts(path()), counts);
}

TEST_F(FileTest, HoldsTheWorkThatWasCounted) {
  EXPECT_FALSE(written().contains("work"));
  HeldCounts counts = counts_of(1);
  counts.work = {"2.11.0",
                 {{{0, 1},
                   {{"mm", {4, 400}}, {"add", {2, std::nullopt}}},
                   std::nullopt,
                   {{"train.py", "loss = model(x)", 0, 4, 400}}}}};
  std::ofstream(path()) << held_counts_text(counts);
  EXPECT_EQ(read_held_counts(path()), counts);
}

TEST(HeldCountsTest, WorkIsComparedWhereBothHaveItOfOneTorch) {
  HeldCounts held = counts_of(1);
  HeldCounts seen = held;
  seen.work = {"2.11.0", {{{0, 1}, {{"mm", {5, 400}}}, 10, {}}}};
  expect_differences(seen, held, {});
  const std::vector<std::string> unheld = held_differences(held, seen).notes;
  held.work = seen.work;
  held.work->ranks[0].operators["mm"].times = 4;
  expect_differences(held, seen, {"work"});
  held.work->torch = "2.12.0";
  expect_differences(held, seen, {});
  const std::vector<std::string> of_another = held_differences(held, seen).notes;
  ASSERT_THAT(unheld, SizeIs(1));
  ASSERT_THAT(of_another, SizeIs(1));
  test::expect_phrases("gate", {unheld[0], of_another[0]});
}

TEST_F(FileTest, AFileThatNamesNoGpusIsOfTheMachinesOwnDevices) {
  EXPECT_FALSE(written().contains("gpus_of_paper"));
  EXPECT_EQ(read(written()).gpus_of_paper, "");
}

TEST_F(FileTest, RefusesWhatItDoesNotHold) {
  expect_refused("/schema", "gradsync.counts/2", "gradsync.counts/1");
  expect_refused("/sync_per_step", 1, "'sync_per_step': got 1, expected none of this name");
  expect_refused("/ranks/0/outside/0/count", 1, "'ranks[0].outside[0].count'");
  expect_refused("/ranks/0/per_step/all_reduce/count", 2,
                 "'ranks[0].per_step': got all_reduce 2 (1028 bytes)");
  expect_refused("/ranks/0/syncs_per_step", 5, "expected 0 to 4, its micro-batches");
  expect_refused("/ranks/0/ranks", {0, 0}, "each once in the file");
  expect_refused("/ranks/0/micro_batches/0/times", 0, "expected 1 or more");
  expect_refused("/ranks/0/micro_batches/0/times", 1'000'000'000'000, "micro_batches[0].times");
  expect_refused("/ranks/0/outside/0/bytes", -4, "expected 0 to");
  expect_refused("/ranks", json::array(), "'ranks'");
  EXPECT_NO_THROW(read(written()));
}

HeldPage page_of(int syncs) {
  HeldPage page{"counts.json", "torchrun train.py", counts_of(1), counts_of(syncs), {}};
  page.report.plan = "counts";
  RowReport row;
  row.counts = RowCounts{held_differences(page.held, page.seen).differences, "", ""};
  page.report.rows = {row};
  return page;
}

TEST(HeldPageTest, ShowsWhatIsHeldAndWhatWasSeen) {
  EXPECT_EQ(held_text(page_of(1)),
            "GATE counts.json: torchrun train.py\n\n"
            "| per step and rank | counts.json |  now |\n"
            "|:------------------|------------:|-----:|\n"
            "| micro-batches     |           4 |    4 |\n"
            "| synchronizations  |           1 |    1 |\n"
            "| all_reduce        |           3 |    3 |\n"
            "| all_reduce, bytes |        1028 | 1028 |\n"
            "\n"
            "VERDICT: PASSED (1 pass, 0 regressions, 0 undecided)                      exit 0\n");
}

TEST(HeldPageTest, ACommentMarksWhatDiffersAndSaysHowToRenewIt) {
  const std::string comment = held_markdown(page_of(4));
  EXPECT_THAT(comment, HasSubstr("### gradsync: NOT PASSED"));
  EXPECT_THAT(comment, HasSubstr("**9** |"));
  EXPECT_THAT(comment, HasSubstr("| micro-batches     |           4 |        4 |"));
  EXPECT_THAT(comment, HasSubstr("- micro-batch 1: 2 more all_reduces"));
  EXPECT_THAT(comment, HasSubstr("gradsync gate counts counts.json --update -- torchrun"));
  EXPECT_THAT(held_markdown(page_of(1)), Not(HasSubstr("--update")));
  HeldPage on_paper = page_of(4);
  on_paper.seen.gpus_of_paper = "8xh100";
  EXPECT_THAT(held_markdown(on_paper), HasSubstr("--update --on 8xh100 -- torchrun"));
}

}  // namespace
}  // namespace gradsync::gate
