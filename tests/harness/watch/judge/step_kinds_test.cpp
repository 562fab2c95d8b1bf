// Steps of other kinds than the usual one, and what an account learns about them.
//
// Covers: seen_beside.cpp.
#include "harness/watch/judge/step_kinds.h"

#include <gtest/gtest.h>

#include "harness/watch/judge/seen_beside.h"
#include "harness/watch/judge/watched.h"
#include "tests/harness/report/golden.h"
#include "tests/harness/watch/made_job.h"

namespace gradsync::watch {
namespace {

using test::MadeJob;

void unsynced(MadeJob& job) {
  job.enter_no_sync().forward(1, "no_sync").backward().leave_no_sync();
}

void step(MadeJob& job, int micro_batches) {
  job.times(micro_batches - 1, unsynced).forward().reducing().optimizer().zero_grad();
}

void usual_step(MadeJob& job) {
  step(job, 4);
}

// Windows of 4 in 10 micro-batches: the last two are cleared when the next 10 begin.
MadeJob with_dropped_windows() {
  MadeJob job;
  return job.wrap().times(
      3, [](MadeJob& epoch) { epoch.zero_grad(25).times(2, usual_step).times(2, unsynced); });
}

Watched seen(const MadeJob& job) {
  return summarize({job.process()});
}

TEST(StepKinds, AWindowThatIsClearedUnreadIsNamedWithItsLine) {
  const Watched watched = seen(with_dropped_windows());
  ASSERT_EQ(watched.kinds.size(), 1U);
  const StepKind& kind = watched.kinds[0];
  EXPECT_EQ(kind.micro_batches, 6);
  EXPECT_EQ(kind.cleared, 2);
  EXPECT_EQ(kind.steps, 2);
  EXPECT_EQ(kind.all, 6);
  EXPECT_EQ(kind.line, 25);
  EXPECT_FALSE(has_excess(watched));
  test::expect_phrases("watch/judge", step_kind_texts(watched.kinds));
}

TEST(StepKinds, StepsThatAreCutShortAreNamedByTheirTurn) {
  MadeJob job;
  job.wrap().times(4, [](MadeJob& epoch) {
    epoch.times(2, usual_step);
    step(epoch, 1);
  });
  test::expect_phrases("watch/judge", step_kind_texts(seen(job).kinds));
}

TEST(StepKinds, GradientsThatAreReadOrKeptAreNotClearedUnread) {
  MadeJob read;
  MadeJob sharded;
  sharded.wrapper = "fully_shard";
  for (MadeJob* job : {&read, &sharded}) {
    job->wrap().times(5, usual_step);
    unsynced(*job);
    if (job == &read) job->use_gradients(kRead);
    job->zero_grad(25);
    usual_step(*job);
    const Watched watched = seen(*job);
    ASSERT_EQ(watched.kinds.size(), 1U);
    EXPECT_EQ(watched.kinds[0].cleared, 0);
  }
}

TEST(StepKinds, OfManyTheCommonestAreNamed) {
  MadeJob job;
  job.wrap().times(6, usual_step);
  for (const int micro_batches : {1, 2, 3, 5, 5}) step(job, micro_batches);
  test::expect_phrases("watch/judge", step_kind_texts(seen(job).kinds));
}

account::SeenBeside beside(const MadeJob& job) {
  return seen_beside({job.process()}, seen(job).kinds);
}

TEST(SeenBeside, HasTheWindowsThatWereCleared) {
  const auto found = beside(with_dropped_windows());
  EXPECT_EQ(found.cleared, (std::map<int, std::size_t>{{2, 2}}));
  EXPECT_FALSE(found.has_activations);
  EXPECT_EQ(found.between_bytes, 0);
}

TEST(SeenBeside, KnowsModelsThatAreDividedByWhatTheySend) {
  for (const char* op : {"all_to_all", "send"}) {
    MadeJob job;
    job.wrap().times(
        4, [=](MadeJob& each) { each.forward().collective(op, 64).reducing().optimizer(); });
    EXPECT_TRUE(beside(job).has_activations) << op;
  }
  MadeJob in_forward;
  in_forward.wrap().times(4, [](MadeJob& each) {
    each.begin(EventKind::Forward).collective("all_reduce", 64).end().reducing().optimizer();
  });
  EXPECT_TRUE(beside(in_forward).has_activations);
}

TEST(SeenBeside, HasWhatIsMarkedAsEachRanksOwn) {
  RankEvents rank = MadeJob().wrap().times(2, usual_step).process();
  TrackedParameter expert;
  expert.name = "expert";
  expert.meant = Meant::Own;
  TrackedParameter norm;
  norm.name = "norm";
  norm.meant = Meant::Replica;
  rank.optimizers[1].parameters = {expert, norm};
  EXPECT_EQ(seen_beside({rank}, {}).own, std::vector<std::string>{"expert"});
}

TEST(SeenBeside, BuffersAreNoActivations) {
  MadeJob job;
  job.wrap().times(4, [](MadeJob& each) {
    each.forward_with_buffers().reducing().collective("all_reduce", 40).optimizer();
  });
  EXPECT_FALSE(beside(job).has_activations);
  EXPECT_EQ(beside(job).between_bytes, 40);
  job.computes(50).collective("all_reduce", 400);  // when all is done
  EXPECT_EQ(beside(job).between_bytes, 400);
}

}  // namespace
}  // namespace gradsync::watch
