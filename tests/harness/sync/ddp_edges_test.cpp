// What decides whether a backward of DDP synchronizes, at the edges: a forward or a backward alone
// inside no_sync, a forward whose backward never comes, exceptions, evaluation in between, buffers,
// static_graph. Each on real ranks, by what they reduced.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <stdexcept>

#include "harness/base/errors.h"
#include "harness/sync/backward.h"
#include "harness/sync/ddp.h"
#include "tests/harness/sync/ranks.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::test {
namespace {

using sync::DistributedDataParallel;
using testing::HasSubstr;

// The gradients that one process gets from the micro-batches `indices` of each of `ranks`, averaged
// over the ranks.
std::vector<at::Tensor> gradients_of(const std::vector<int>& ranks,
                                     const std::vector<int>& indices) {
  ToyModel model;
  for (const int rank : ranks) {
    for (const int index : indices) {
      (model.loss(toy_batch(rank, index)) / static_cast<double>(ranks.size())).backward();
    }
  }
  return gradients_held_by(model);
}

// A model, its wrapper, and its micro-batches by number.
struct Wrapped {
  explicit Wrapped(RankHarness& of, const sync::DdpOptions& options = {})
      : rank(of), model(module, of.group, options) {}

  void synchronized(int index) {
    sync::backward(model.forward(toy_batch(rank.rank, index)), 1, nullptr);
  }
  void under_no_sync(int index) {
    const auto guard = model.no_sync();
    synchronized(index);
  }
  void evaluated() {
    const at::NoGradGuard no_grad;
    model.forward(toy_batch(rank.rank, 0));
  }
  // Past the bucket rebuild, which broadcasts, too; without gradients.
  void settle() {
    synchronized(0);
    synchronized(0);
    for (const at::Tensor& parameter : model.parameters()) parameter.mutable_grad().reset();
  }

  // Whose forward may throw.
  struct Module : ToyModel {
    at::Tensor loss(const models::Batch& batch) override {
      if (fails) throw std::runtime_error("in forward");
      return ToyModel::loss(batch);
    }
    bool fails = false;
  };

  RankHarness& rank;
  std::shared_ptr<Module> module = std::make_shared<Module>();
  DistributedDataParallel model;
};

TEST(DdpEdges, ABackwardOutsideDoesNotSynchronizeAForwardInside) {
  run_ranks(2, [](RankHarness& rank) {
    Wrapped trained(rank);
    at::Tensor loss;
    {
      const auto guard = trained.model.no_sync();
      loss = trained.model.forward(toy_batch(rank.rank, 0));
    }
    EXPECT_TRUE(trained.model.require_backward_grad_sync());
    EXPECT_EQ(all_reduces(rank, [&] { sync::backward(loss, 1, nullptr); }), 0);
    expect_gradients(trained.model, gradients_of({rank.rank}, {0}));  // this rank's own
    // The first forward *and* backward outside reduces what has accumulated.
    EXPECT_EQ(all_reduces(rank, [&] { trained.synchronized(1); }), 1);
    expect_gradients(trained.model, gradients_of({0, 1}, {0, 1}));
  });
}

TEST(DdpEdges, AForwardWhoseBackwardNeverComesArmsTheNextBackward) {
  run_ranks(2, [](RankHarness& rank) {
    Wrapped trained(rank);
    trained.model.forward(toy_batch(rank.rank, 0));
    EXPECT_EQ(all_reduces(rank, [&] { trained.under_no_sync(1); }), 1);
    expect_gradients(trained.model, gradients_of({0, 1}, {1}));
    EXPECT_EQ(all_reduces(rank, [&] { trained.under_no_sync(1); }), 0);
  });
}

TEST(DdpEdges, AnInnerGuardsEndLeavesTheOuterOneInForce) {
  run_ranks(2, [](RankHarness& rank) {
    Wrapped trained(rank);
    {
      const auto outer = trained.model.no_sync();
      EXPECT_EQ(all_reduces(rank, [&] { trained.under_no_sync(0); }), 0);
      EXPECT_EQ(all_reduces(rank, [&] { trained.synchronized(1); }), 0);
    }
    EXPECT_EQ(all_reduces(rank, [&] { trained.synchronized(2); }), 1);
    expect_gradients(trained.model, gradients_of({0, 1}, {0, 1, 2}));
  });
}

TEST(DdpEdges, AForwardThatThrowsInsideNoSyncLeavesNothingBehind) {
  run_ranks(2, [](RankHarness& rank) {
    Wrapped trained(rank);
    trained.module->fails = true;
    EXPECT_THROW(trained.under_no_sync(0), std::runtime_error);
    EXPECT_THROW(trained.synchronized(0), std::runtime_error);
    trained.module->fails = false;
    EXPECT_TRUE(trained.model.require_backward_grad_sync());
    EXPECT_EQ(all_reduces(rank, [&] { trained.under_no_sync(0); }), 0);  // not armed by the second
    EXPECT_EQ(all_reduces(rank, [&] { trained.synchronized(1); }), 1);
    expect_gradients(trained.model, gradients_of({0, 1}, {0, 1}));
  });
}

TEST(DdpEdges, ABackwardThatThrowsHalfwayIsToldByTheNextForward) {
  run_ranks(1, [](RankHarness& rank) {
    Wrapped trained(rank);
    trained.module->w1.register_hook(
        [](const at::Tensor&) -> void { throw std::runtime_error("in backward"); });
    EXPECT_THROW(trained.synchronized(0), std::runtime_error);
    const std::string words =
        message_of<sync::UnfinishedReduction>([&] { trained.synchronized(1); });
    EXPECT_THAT(words, HasSubstr("parameter w1 got no gradient"));
  });
}

TEST(DdpEdges, EvaluationArmsNothingInsideNoSyncOrOutside) {
  run_ranks(2, [](RankHarness& rank) {
    Wrapped trained(rank);
    trained.evaluated();
    EXPECT_EQ(all_reduces(rank, [&] { trained.under_no_sync(0); }), 0);
    {
      const at::NoGradGuard no_grad;
      const auto guard = trained.model.no_sync();
      trained.model.forward(toy_batch(rank.rank, 0));
      EXPECT_FALSE(trained.model.require_backward_grad_sync());
    }
    EXPECT_TRUE(trained.model.require_backward_grad_sync());
    EXPECT_EQ(all_reduces(rank, [&] { trained.synchronized(1); }), 1);
    expect_gradients(trained.model, gradients_of({0, 1}, {0, 1}));
  });
}

TEST(DdpEdges, BuffersAreBroadcastOnceAfterEachSynchronizedForward) {
  run_ranks(2, [](RankHarness& rank) {
    Wrapped trained(rank);
    trained.settle();
    const auto broadcasts = [&](auto body) { return count_collectives(rank, "broadcast", body); };
    EXPECT_EQ(broadcasts([&] { trained.under_no_sync(0); }), 1);
    EXPECT_EQ(broadcasts([&] { trained.under_no_sync(1); }), 0);
    EXPECT_EQ(broadcasts([&] { trained.synchronized(2); }), 0);
    EXPECT_EQ(broadcasts([&] { trained.synchronized(3); }), 1);
    // An evaluation gets rank 0's buffers, too, and spends what the next forward would have had.
    EXPECT_EQ(broadcasts([&] { trained.evaluated(); }), 1);
    EXPECT_EQ(broadcasts([&] { trained.synchronized(4); }), 0);
  });
}

TEST(DdpEdges, BuffersStayLocalWithoutBroadcastBuffers) {
  run_ranks(2, [](RankHarness& rank) {
    Wrapped trained(rank, {.broadcast_buffers = false});
    trained.settle();
    trained.module->counter.fill_(rank.rank);
    EXPECT_EQ(count_collectives(rank, "broadcast", [&] { trained.synchronized(0); }), 0);
    EXPECT_EQ(trained.module->counter[0].item<float>(), static_cast<float>(rank.rank));
  });
}

TEST(DdpEdges, StaticGraphRefusesNoSyncFirstAndGoesOnFromASynchronizedOne) {
  run_ranks(2, [](RankHarness& rank) {
    Wrapped trained(rank, {.static_graph = true});
    EXPECT_THAT(message_of<ConfigError>([&] { trained.under_no_sync(0); }),
                HasSubstr("static_graph: the first micro-batch is inside no_sync, expected a "
                          "synchronized one first"));
    {
      const auto guard = trained.model.no_sync();
      trained.evaluated();  // no graph to learn from, and none is asked for
    }
    trained.synchronized(0);
    EXPECT_EQ(all_reduces(rank, [&] { trained.under_no_sync(1); }), 0);
    EXPECT_EQ(all_reduces(rank, [&] { trained.synchronized(2); }), 1);
    expect_gradients(trained.model, gradients_of({0, 1}, {0, 1, 2}));
  });
}

}  // namespace
}  // namespace gradsync::test
