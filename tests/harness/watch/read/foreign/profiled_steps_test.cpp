// What the watcher saw of a job, and a trace of some of its steps: both made event by event.
#include "harness/watch/read/foreign/profiled_steps.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "harness/watch/judge/watched.h"
#include "harness/watch/tell/page_parts.h"
#include "tests/harness/watch/read/foreign/gpu_trace.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::watch {
namespace {

using test::GpuTrace;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr int kRecorded = 4;
constexpr std::int64_t kAheadNs = 7'000'000'000;  // the profiler's clock, of the watcher's
constexpr int kOtherThread = 99;

GpuTrace& add_steps(GpuTrace& trace, int count) {
  for (int i = 0; i < count; ++i) trace.micro_batch(true).micro_batch(false).step();
  return trace;
}

// A watcher's clock lies behind the profiler's.
GpuTrace on_watchers_clock(int rank) {
  GpuTrace trace(rank);
  trace.on_clock(-static_cast<double>(kAheadNs) / 1000 + 8e6);
  return trace;
}

// The watcher saw three steps more than the trace has: one before, and two behind. Its events are
// those of a trace of all, without what GPUs did.
RankEvents watched_rank(int rank = 0) {
  GpuTrace all = on_watchers_clock(rank);
  RankEvents seen = add_steps(all, 1 + 1 + kRecorded + 2).rank();  // the first is dropped
  seen.gpu.reset();
  seen.faults.clear();
  std::vector<std::int64_t> steps_ns;
  for (Event& event : seen.events) {
    event.on_gpu.reset();
    if (event.kind == EventKind::OptimizerStep) steps_ns.push_back(event.start_ns);
  }
  seen.profiled = GpuSpan{steps_ns[0] + 1, steps_ns[kRecorded] + 1};
  return seen;
}

std::string recorded_text(int rank = 0, test::Pace pace = {}) {
  GpuTrace all(rank);
  all.on_clock(8e6);
  add_steps(all, 2);
  all.events().clear();
  for (int i = 0; i < kRecorded; ++i) all.micro_batch(true, pace).micro_batch(false, pace).step();
  return all.text();
}

RankEvents with_seconds(RankEvents seen, const std::string& text) {
  add_profiled_steps(seen, parse_trace(text, "seconds-5.json"));
  return seen;
}

std::vector<const Event*> with_kernels(const RankEvents& rank) {
  std::vector<const Event*> found;
  for (const Event& event : rank.events) {
    if (event.on_gpu) found.push_back(&event);
  }
  return found;
}

TEST(ProfiledSteps, TellWhatTheExcessCostsInThoseThatWereRecorded) {
  const RankEvents rank = with_seconds(watched_rank(), recorded_text());
  EXPECT_THAT(rank.faults, IsEmpty());
  const Watched watched = summarize({rank});
  const TypicalStep& typical = *watched.typical;
  EXPECT_EQ(typical.gpu->steps, kRecorded - 1);
  EXPECT_GT(typical.steps, kRecorded);
  EXPECT_NEAR(*typical.step_s, 280e-6, 1e-9);
  EXPECT_NEAR(*typical.excess_s, 30e-6, 1e-9);
  EXPECT_NEAR(typical.gpu->times.exposed_s, 60e-6, 1e-9);
  ASSERT_TRUE(typical.gpu->most_exposed.has_value());
  EXPECT_EQ(typical.gpu->most_exposed->of, 2);
  EXPECT_NEAR(*watched.series.exposed_s, 60e-6, 1e-9);
  EXPECT_THAT(times_sentence(typical),
              HasSubstr("(median of 3 steps that torch.profiler recorded"));
}

TEST(ProfiledSteps, TheFirstOneDoesNotCount) {
  const RankEvents rank = with_seconds(watched_rank(), recorded_text());
  const auto found = with_kernels(rank);
  EXPECT_EQ(std::ssize(found), 2 * (kRecorded - 1));
  EXPECT_GT(found.front()->start_ns, rank.gpu->recorded.start_ns);
  EXPECT_LT(found.back()->start_ns, rank.gpu->recorded.end_ns);
}

TEST(ProfiledSteps, StandOnTheClockOfTheWatcher) {
  const RankEvents rank = with_seconds(watched_rank(), recorded_text());
  const RankEvents traced = events_of(parse_trace(recorded_text(), "trace.json"));
  const Event& last = *with_kernels(rank).back();
  const Event& same = *with_kernels(traced).back();
  EXPECT_EQ(same.on_gpu->ran.start_ns - last.on_gpu->ran.start_ns, kAheadNs);
  EXPECT_EQ(traced.gpu->busy.back().end_ns - rank.gpu->busy.back().end_ns, kAheadNs);
}

TEST(ProfiledSteps, OfAllRanksTellWhichOneTheOthersWaitFor) {
  const test::Pace is_late{.computes = 120, .lasts = 130};
  const RankEvents waits = with_seconds(watched_rank(0), recorded_text(0));
  const RankEvents late = with_seconds(watched_rank(1), recorded_text(1, is_late));
  const Watched watched = summarize({waits, late});
  EXPECT_EQ(*watched.series.latest_rank, 1);
  EXPECT_NEAR(*watched.typical->excess_s, 10e-6, 1e-9);
  EXPECT_THAT(gpu_sentence(watched), EndsWith("the others wait for rank 1"));
}

TEST(ProfiledSteps, AreNotKnownWhereBothSawOtherCollectives) {
  RankEvents seen = watched_rank();
  const auto first = std::ranges::find_if(seen.events, [&](const Event& event) {
    return event.kind == EventKind::Collective && event.start_ns > seen.profiled->start_ns;
  });
  first->name = "broadcast";
  const RankEvents rank = with_seconds(std::move(seen), recorded_text());
  EXPECT_THAT(rank.faults, ElementsAre("no seconds of its GPU: the collectives of its trace are "
                                       "not those that the watcher saw"));
  EXPECT_FALSE(rank.gpu.has_value());
  EXPECT_THAT(with_kernels(rank), IsEmpty());
}

TEST(ProfiledSteps, AreNotKnownWhereOnlyAGraphCommunicates) {
  RankEvents seen = watched_rank();
  std::erase_if(seen.events,
                [](const Event& event) { return event.kind == EventKind::Collective; });
  GpuTrace graph;
  graph.launch("cudaGraphLaunch", 1000);
  graph.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 2000, 100);
  const RankEvents rank = with_seconds(std::move(seen), graph.text());
  EXPECT_THAT(rank.faults, ElementsAre(HasSubstr("nothing of c10d communicated")));
}

// The profiler records the threads of the training alone.
TEST(ProfiledSteps, OtherThreadsOfTheJobMayCommunicate) {
  RankEvents seen = watched_rank();
  Event other = *std::ranges::find(seen.events, EventKind::Collective, &Event::kind);
  other.thread = kOtherThread;
  other.start_ns = seen.profiled->start_ns + 1;
  seen.events.push_back(other);
  sort_by_time(seen.events);
  const RankEvents rank = with_seconds(std::move(seen), recorded_text());
  EXPECT_THAT(rank.faults, IsEmpty());
  EXPECT_TRUE(rank.gpu.has_value());
}

TEST(ProfiledSteps, ATraceWithoutKernelsSaysWhatToLookAt) {
  GpuTrace on_host;
  on_host.add("cpu_op", "c10d::allreduce_", 1000, 2);
  const RankEvents rank = with_seconds(watched_rank(), on_host.text());
  EXPECT_THAT(rank.faults,
              ElementsAre(HasSubstr("no work of a GPU: CUPTI may be in use by another profiler")));
}

TEST(ProfiledSteps, AreReadFromTheFolderOfTheJob) {
  const gradsync::test::TemporaryFolder folder;
  std::vector<RankEvents> ranks{watched_rank(), watched_rank(), watched_rank()};
  for (std::int64_t i = 0; i < 3; ++i) ranks[i].pid = 40 + i;
  folder.write("seconds-40.json", recorded_text());
  folder.write("seconds-41.json", "{\"traceEvents\": [");
  ranks[2].profiled.reset();  // its recording did not end
  add_profiled_steps(ranks, folder.path());
  EXPECT_TRUE(ranks[0].gpu.has_value());
  EXPECT_THAT(ranks[1].faults, ElementsAre(StartsWith("no seconds of its GPU: ")));
  EXPECT_THAT(ranks[2].faults, IsEmpty());
}

}  // namespace
}  // namespace gradsync::watch
