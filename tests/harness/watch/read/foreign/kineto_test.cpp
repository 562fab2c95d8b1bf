// What a trace of torch.profiler's tells, and what it leaves open: traces made range by range, and
// the verdict on them.
//
// Covers: gradient_runs.cpp, traced_backwards.cpp, traced_collectives.cpp.
#include "harness/watch/read/foreign/kineto.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "harness/watch/judge/watched.h"

namespace gradsync::watch {
namespace {

constexpr std::int64_t kThread = 7;
constexpr std::int64_t kGradients = 2;

// A trace of a rank of two, whose model has two gradients of six floats each.
class Trace {
 public:
  Trace() {
    file_.pid = 7;
    file_.rank = 0;
    file_.world_size = 2;
    file_.has_shapes = true;
    file_.groups.push_back({.name = "0", .number = 1, .ranks = {0, 1}, .axis = {}, .replicas = {}});
  }

  enum class Reducer { Off, On, OfAHook, OfAHookThatReduces };

  // Forward and backward; `is_new`: of gradients, which else are added to.
  Trace& micro_batch(Reducer reducer, bool is_new, std::int64_t size = 6) {
    return forward().backward(reducer, is_new, size);
  }

  Trace& forward() {
    add(TracedKind::Annotation, "DistributedDataParallel.forward", now_ns_, 10);
    now_ns_ += 20;
    return *this;
  }

  Trace& backward(Reducer reducer, bool is_new, std::int64_t size = 6) {
    for (std::int64_t i = 0; i < kGradients; ++i) accumulate(reducer, is_new, size);
    if (reducer == Reducer::On || reducer == Reducer::OfAHookThatReduces) {
      add(TracedKind::Operator, "c10d::allreduce_", now_ns_ - 12, 4, {size * kGradients});
    }
    now_ns_ += 10;
    return *this;
  }

  Trace& op(const char* name, std::vector<std::int64_t> sizes) {
    add(TracedKind::Operator, name, now_ns_, 5, std::move(sizes));
    now_ns_ += 10;
    return *this;
  }

  Trace& step() {
    add(TracedKind::Annotation, "Optimizer.step#SGD.step", now_ns_, 5);
    now_ns_ += 10;
    return *this;
  }

  Trace& in_world_of(int ranks) {
    file_.world_size = ranks;
    return *this;
  }

  Watched watched() {
    std::ranges::stable_sort(file_.ranges, {}, [](const TracedRange& range) {
      return std::pair(range.start_ns, -range.end_ns);
    });
    return summarize({events_of(file_)});
  }

  Verdict verdict() { return watched().verdicts.front(); }

 private:
  void accumulate(Reducer reducer, bool is_new, std::int64_t size) {
    add(TracedKind::Operator,
        "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", now_ns_, 20);
    add(TracedKind::Operator, "torch::autograd::AccumulateGrad", now_ns_ + 1, 5, {size});
    add(TracedKind::Operator, is_new ? "aten::detach" : "aten::add_", now_ns_ + 2, 2, {size});
    if (reducer == Reducer::On) {
      add(TracedKind::Operator, "torch::distributed::reducer::mul_out", now_ns_ + 7, 1, {size});
    } else if (reducer != Reducer::Off) {
      add(TracedKind::Operator, "torch::distributed::reducer::copy_", now_ns_ + 7, 1, {size});
    }
    now_ns_ += 20;
  }

  void add(TracedKind kind, const char* name, std::int64_t start_ns, std::int64_t took_ns,
           std::vector<std::int64_t> sizes = {}) {
    file_.names.emplace_back(name);
    TracedRange range;
    range.kind = kind;
    range.name = file_.names.back();
    range.start_ns = start_ns;
    range.end_ns = start_ns + took_ns;
    range.thread = kThread;
    if (!sizes.empty()) {
      file_.inputs.push_back({{{.sizes = std::move(sizes), .type = "float"}}});
      range.inputs = &file_.inputs.back();
    }
    file_.ranges.push_back(range);
  }

  TraceFile file_;
  std::int64_t now_ns_ = 1000;
};

using Reducer = Trace::Reducer;

TEST(Kineto, OneModelByItsGradientsIsAccusedOfEachSynchronizationBeforeTheLast) {
  Trace trace;
  for (int i = 0; i < 4; ++i) {
    trace.micro_batch(Reducer::On, true).micro_batch(Reducer::On, false).step();
  }
  const Watched watched = trace.watched();
  EXPECT_EQ(watched.verdicts.front().kind, VerdictKind::MoreThanOnce);
  EXPECT_EQ(watched.verdicts.front().cause, Cause::NoNoSyncAroundForward);
  EXPECT_TRUE(watched.verdicts.front().fails);
  EXPECT_EQ(watched.typical->micro_batches, 2);
  EXPECT_EQ(watched.typical->collectives.at("all_reduce"), (OpSum{2, 96}));
  EXPECT_EQ(watched.ranks.front().steps, 3);  // the first may be cut
}

TEST(Kineto, MicroBatchesOfWhichNoGradientIsCopiedWereToldNotTo) {
  Trace trace;
  for (int i = 0; i < 4; ++i) {
    trace.micro_batch(Reducer::Off, true).micro_batch(Reducer::On, false).step();
  }
  EXPECT_EQ(trace.verdict().kind, VerdictKind::OncePerStep);
}

TEST(Kineto, AModelThatIsNeverSynchronizedIsAccused) {
  Trace trace;
  for (int i = 0; i < 4; ++i) {
    trace.micro_batch(Reducer::Off, true).micro_batch(Reducer::Off, false).step();
  }
  EXPECT_EQ(trace.verdict().kind, VerdictKind::Never);
  EXPECT_TRUE(trace.verdict().fails);
}

TEST(Kineto, ACommunicationHookThatMayReduceByItselfIsNot) {
  Trace trace;
  for (int i = 0; i < 4; ++i) trace.micro_batch(Reducer::OfAHook, true).step();
  EXPECT_NE(trace.verdict().kind, VerdictKind::Never);
  EXPECT_FALSE(trace.verdict().fails);
}

// Gradients that lie in their buckets are not copied, and a hook leaves nothing to be seen.
TEST(Kineto, GradientsThatMayLieInTheirBucketsTellNothing) {
  Trace trace;
  for (int i = 0; i < 4; ++i) trace.micro_batch(Reducer::Off, false).step();
  EXPECT_EQ(trace.verdict().kind, VerdictKind::NotInFile);
}

TEST(Kineto, ModelsOfTheSameSizesAreNotTakenForOne) {
  Trace trace;
  for (int i = 0; i < 4; ++i) {
    trace.micro_batch(Reducer::On, true).micro_batch(Reducer::On, true).step();
  }
  EXPECT_EQ(trace.verdict().kind, VerdictKind::NotInFile);
}

// A critic that synchronizes too often, and a model of its sizes that does not.
TEST(Kineto, StepsThatMayBeOfAnotherModelOfTheSameSizesAreNotTakenForOneModels) {
  Trace trace;
  for (int i = 0; i < 4; ++i) {
    trace.micro_batch(Reducer::On, true).micro_batch(Reducer::On, false).step();
    trace.micro_batch(Reducer::On, true).step();
  }
  EXPECT_EQ(trace.verdict().kind, VerdictKind::NotInFile);
}

TEST(Kineto, ModelsOfOtherSizesAreTwo) {
  Trace trace;
  for (int i = 0; i < 4; ++i) {
    trace.micro_batch(Reducer::On, true, 6).micro_batch(Reducer::On, true, 8).step();
  }
  EXPECT_EQ(trace.verdict().kind, VerdictKind::OncePerStep);
}

// Two forwards, then a backward of each, which begins with the gradient of its loss.
Trace two_ahead(Reducer of_the_first) {
  Trace trace;
  for (int i = 0; i < 4; ++i) {
    trace.forward().forward().backward(of_the_first, true);
    trace.op("aten::ones_like", {}).backward(Reducer::On, false).step();
  }
  return trace;
}

TEST(Kineto, ForwardsAheadOfBackwardsOfWhichTheLastReducesAreMicroBatchesOfOneModel) {
  const Watched watched = two_ahead(Reducer::Off).watched();
  EXPECT_EQ(watched.verdicts.front().kind, VerdictKind::OncePerStep);
  ASSERT_TRUE(watched.typical.has_value());
  EXPECT_EQ(watched.typical->micro_batches, 2);
}

// Each backward may run through both of two models.
TEST(Kineto, ForwardsAheadOfBackwardsThatAllReduceMayBeOfSeveralModels) {
  const Verdict verdict = two_ahead(Reducer::On).verdict();
  EXPECT_EQ(verdict.kind, VerdictKind::NotInFile);
  EXPECT_EQ(verdict.cause, Cause::OrderNotTold);
}

// As validation between micro-batches does.
TEST(Kineto, AForwardThatNoBackwardAnswersRunsAheadOfNone) {
  Trace trace;
  for (int i = 0; i < 4; ++i) trace.forward().micro_batch(Reducer::On, true).step();
  EXPECT_EQ(trace.verdict().kind, VerdictKind::OncePerStep);
}

TEST(Kineto, RanksThatGatherWhatIsOfUnknownSizeMayAverageIt) {
  Trace trace;
  for (int i = 0; i < 4; ++i) {
    trace.micro_batch(Reducer::Off, true).micro_batch(Reducer::Off, false).step();
    trace.op("c10d::allgather_", {});
  }
  EXPECT_EQ(trace.verdict().kind, VerdictKind::NotRecognised);
}

TEST(Kineto, UnderACommunicationHookWhatIsExchangedElsewhereLeavesOpenWhatItReduces) {
  Trace trace;
  for (int i = 0; i < 4; ++i) {
    trace.micro_batch(Reducer::OfAHookThatReduces, true).op("c10d::allreduce_", {12}).step();
  }
  EXPECT_EQ(trace.verdict().kind, VerdictKind::NotInFile);
}

TEST(Kineto, AnOperatorOnAGradientsSizeBetweenMicroBatchesLeavesOpenWhatItDoes) {
  Trace trace;
  for (int i = 0; i < 4; ++i) {
    trace.micro_batch(Reducer::On, true).op("aten::norm", {6}).micro_batch(Reducer::On, false);
    trace.step();
  }
  EXPECT_EQ(trace.verdict().kind, VerdictKind::NotInFile);
  EXPECT_THAT(trace.verdict().sentence, testing::HasSubstr("aten::norm"));
}

TEST(Kineto, OperatorsOnOtherSizesAndBehindTheLastMicroBatchDoNot) {
  Trace trace;
  for (int i = 0; i < 4; ++i) {
    trace.micro_batch(Reducer::On, true).op("aten::mean", {3}).micro_batch(Reducer::On, false);
    trace.op("aten::norm", {6}).step();
  }
  EXPECT_EQ(trace.verdict().kind, VerdictKind::MoreThanOnce);
}

TEST(Kineto, AStepThatTheTraceCutsIsNotJudged) {
  Trace trace;
  trace.micro_batch(Reducer::On, false).step();
  for (int i = 0; i < 3; ++i) {
    trace.micro_batch(Reducer::Off, true).micro_batch(Reducer::On, false).step();
  }
  const Watched watched = trace.watched();
  EXPECT_EQ(watched.ranks.front().steps, 3);
  EXPECT_EQ(watched.verdicts.front().kind, VerdictKind::OncePerStep);
}

TEST(Kineto, WithoutAnOptimizerOrAWorldNothingIsJudged) {
  EXPECT_EQ(Trace().micro_batch(Reducer::On, true).verdict().kind, VerdictKind::NotInFile);
  EXPECT_EQ(Trace().micro_batch(Reducer::On, true).step().in_world_of(0).verdict().cause,
            Cause::WorldSizeNotTold);
}

TEST(Kineto, SaysWhatATraceDoesNotHold) {
  const Watched watched = Trace().micro_batch(Reducer::On, true).step().watched();
  EXPECT_THAT(watched.faults, testing::Contains(testing::HasSubstr("not in this file: ")));
  EXPECT_THAT(watched.faults, testing::Contains("files of 1 of 2 ranks were given"));
}

}  // namespace
}  // namespace gradsync::watch
