#include "harness/watch/judge/steps/usual_work.h"

#include <gmock/gmock.h>

#include "harness/watch/judge/steps/job_counts.h"
#include "tests/harness/watch/made_job.h"

namespace gradsync::watch {
namespace {

using gate::LineWork;
using gate::OperatorWork;
using gradsync::test::kMillisecond;
using gradsync::test::MadeJob;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kSteps = 6;
constexpr std::int64_t kFlops = 30;

// Each step runs "mm" as often as `times_of` its number says, from 0, and 2 x "add". The first is
// not counted.
template <typename TimesOf>
RankEvents process_of(TimesOf times_of) {
  MadeJob job;
  job.wrap();
  for (int i = 0; i < kSteps; ++i) job.forward().reducing().optimizer();
  RankEvents process = job.process();
  int step = 0;
  for (const Event& event : process.events) {
    if (event.kind != EventKind::OptimizerStep || step++ == 0) continue;
    const std::int64_t at_ns = event.start_ns + kMillisecond;
    process.work.push_back({at_ns, "mm", 1, times_of(step - 1), 100, kFlops});
    process.work.push_back({at_ns, "add", 2, 1, 8, 0});
    process.work.push_back({at_ns, "add", 3, 1, 8, 0});
  }
  return process;
}

gate::RankWork work_of(const RankEvents& process) {
  const auto counts = usual_counts({process}).counts;
  EXPECT_TRUE(counts.work.has_value());
  EXPECT_THAT(counts.work->ranks, SizeIs(1));
  return counts.work->ranks.front();
}

TEST(UsualWork, IsWhatAllButAQuarterOfTheStepsDo) {
  const gate::RankWork one_odd =
      work_of(process_of([](int step) { return step == kSteps - 1 ? 9 : 4; }));
  EXPECT_THAT(one_odd.ranks, ElementsAre(0));
  EXPECT_EQ(one_odd.operators.at("mm"), (OperatorWork{4, 100}));
  EXPECT_EQ(one_odd.operators.at("add"), (OperatorWork{2, 16})) << "of all stacks";
  EXPECT_EQ(one_odd.flops, kFlops);
  const gate::RankWork two_odd =
      work_of(process_of([](int step) { return step >= kSteps - 2 ? 9 : 4; }));
  EXPECT_EQ(two_odd.operators.at("mm"), (OperatorWork{std::nullopt, 100}));
}

TEST(UsualWork, LeavesOutTheStepInWhichBucketsAreArranged) {
  const gate::RankWork work = work_of(process_of([](int step) { return step == 1 ? 50 : 4; }));
  EXPECT_EQ(work.operators.at("mm").times, 4);
}

TEST(UsualWork, WithoutAnyCountedThereIsNone) {
  RankEvents process = process_of([](int) { return 4; });
  process.work.clear();
  EXPECT_FALSE(usual_counts({process}).counts.work.has_value());
  EXPECT_THAT(last_counted_work({process}).ranks, IsEmpty());
}

TEST(LastCountedWork, IsThatOfItsStepAlone) {
  RankEvents process = process_of([](int step) { return step; });
  const std::int64_t later_ns = process.work.back().written_ns;
  std::erase_if(process.work, [&](const Work& work) { return work.written_ns == later_ns; });
  process.rank = -1;
  const gate::HeldWork work = last_counted_work({process});
  ASSERT_THAT(work.ranks, SizeIs(1));
  EXPECT_THAT(work.ranks[0].ranks, ElementsAre(0)) << "it is alone";
  EXPECT_EQ(work.ranks[0].operators.at("mm"), (OperatorWork{kSteps - 2, 100}));
  EXPECT_EQ(work.ranks[0].flops, kFlops);
}

TEST(UsualWork, OfAStackTheInnermostLineHasIt) {
  RankEvents process = process_of([](int) { return 4; });
  const JobLine loop{"/job/train.py", 20, "train()"};
  process.stacks = {{1, {{"/job/model.py", 3, "y = w @ x"}, loop}},
                    {2, {{"/job/train.py", 9, "loss = a + b"}, loop}}};
  EXPECT_THAT(work_of(process).lines, ElementsAre(LineWork{"model.py", "y = w @ x", 3, 4, 100},
                                                  LineWork{"train.py", "train()", 20, 0, 0},
                                                  LineWork{"train.py", "loss = a + b", 9, 1, 8}));
}

}  // namespace
}  // namespace gradsync::watch
