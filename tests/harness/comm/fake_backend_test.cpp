// Covers: process_groups.cpp.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "harness/comm/process_groups.h"

namespace gradsync::comm {
namespace {

constexpr int kWorldSize = 8;

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

at::Tensor values() {
  return at::arange(2 * kWorldSize, at::kFloat);
}

// Every collective by the name that the ledger has for it, on `mine`, whose first part is `part`,
// and on a tensor like each from every rank.
std::map<std::string, std::function<WorkPtr(c10d::Backend&, at::Tensor& mine, at::Tensor& part)>>
collectives() {
  return {
      {"broadcast",
       [](auto& b, auto& mine, auto&) {
         Tensors tensors{mine};
         return b.broadcast(tensors, c10d::BroadcastOptions());
       }},
      {"all_reduce",
       [](auto& b, auto& mine, auto&) {
         Tensors tensors{mine};
         return b.allreduce(tensors, c10d::AllreduceOptions());
       }},
      {"all_reduce coalesced",
       [](auto& b, auto& mine, auto& part) {
         Tensors tensors{mine, part};
         return b.allreduce_coalesced(tensors, c10d::AllreduceCoalescedOptions());
       }},
      {"reduce",
       [](auto& b, auto& mine, auto&) {
         Tensors tensors{mine};
         return b.reduce(tensors, c10d::ReduceOptions());
       }},
      {"all_gather",
       [](auto& b, auto& mine, auto& part) {
         return b._allgather_base(mine, part, c10d::AllgatherOptions());
       }},
      {"gather",
       [](auto& b, auto& mine, auto& part) {
         std::vector<Tensors> outputs{mine.chunk(kWorldSize)};
         Tensors inputs{part};
         return b.gather(outputs, inputs, c10d::GatherOptions());
       }},
      {"scatter",
       [](auto& b, auto& mine, auto& part) {
         Tensors outputs{part};
         std::vector<Tensors> inputs{mine.chunk(kWorldSize)};
         return b.scatter(outputs, inputs, c10d::ScatterOptions());
       }},
      {"reduce_scatter of lists",
       [](auto& b, auto& mine, auto& part) {
         Tensors outputs{part};
         std::vector<Tensors> inputs{mine.chunk(kWorldSize)};
         return b.reduce_scatter(outputs, inputs, c10d::ReduceScatterOptions());
       }},
      {"reduce_scatter",
       [](auto& b, auto& mine, auto& part) {
         return b._reduce_scatter_base(part, mine, c10d::ReduceScatterOptions());
       }},
      {"all_to_all",
       [](auto& b, auto& mine, auto&) {
         std::vector<int64_t> even;
         at::Tensor input = mine.clone();
         return b.alltoall_base(mine, input, even, even, c10d::AllToAllOptions());
       }},
      {"send",
       [](auto& b, auto& mine, auto&) {
         Tensors tensors{mine};
         return b.send(tensors, 1, 0);
       }},
      {"recv",
       [](auto& b, auto& mine, auto&) {
         Tensors tensors{mine};
         return b.recv(tensors, 1, 0);
       }},
      {"barrier", [](auto& b, auto&, auto&) { return b.barrier(c10d::BarrierOptions()); }},
  };
}

TEST(FakeBackend, IsOneRankOfItsWorld) {
  const auto backend = make_fake_backend(3, kWorldSize);
  EXPECT_EQ(backend->getRank(), 3);
  EXPECT_EQ(backend->getSize(), kWorldSize);
  EXPECT_EQ(backend->getBackendName(), "fake");
}

TEST(FakeBackend, EveryCollectiveIsCompleteAndTouchesNothing) {
  const auto backend = make_fake_backend(0, kWorldSize);
  for (const auto& [name, issue] : collectives()) {
    at::Tensor mine = values();
    at::Tensor part = at::full({2}, 7.0);
    const WorkPtr work = issue(*backend, mine, part);
    EXPECT_TRUE(work->isCompleted()) << name;
    EXPECT_TRUE(work->isSuccess()) << name;
    EXPECT_TRUE(work->wait()) << name;
    EXPECT_TRUE(work->getFuture()->completed()) << name;
    EXPECT_TRUE(at::equal(mine, values())) << name;
    EXPECT_TRUE(at::equal(part, at::full({2}, 7.0))) << name;
  }
}

// DDP compares what every rank says of its parameters: the others say the same.
TEST(FakeBackend, AnAllGatherOfListsFindsAllRanksAlike) {
  const auto backend = make_fake_backend(0, kWorldSize);
  std::vector<Tensors> outputs{at::zeros({kWorldSize, 3}).unbind()};
  Tensors inputs{at::arange(3, at::kFloat)};
  backend->allgather(outputs, inputs, c10d::AllgatherOptions())->wait();
  for (const at::Tensor& output : outputs[0]) EXPECT_TRUE(at::equal(output, inputs[0]));
}

// As the Reducer does with a bucket.
TEST(FakeBackend, AnAllReducesFutureHasItsTensors) {
  const auto backend = make_fake_backend(0, kWorldSize);
  Tensors tensors{values()};
  const auto future = backend->allreduce(tensors, c10d::AllreduceOptions())->getFuture();
  EXPECT_TRUE(future->value().toTensorVector().at(0).is_same(tensors[0]));
}

TEST(FakeBackend, ItsCollectivesAreRecordedAsEver) {
  Ledger ledger(steady_clock());
  GroupOptions options;
  options.world_size = kWorldSize;
  options.backend = "fake";
  const auto group = make_process_group(c10::make_intrusive<c10d::HashStore>(), options, ledger);
  EXPECT_EQ(group->getSize(), kWorldSize);
  at::Tensor whole = values();
  at::Tensor part = at::zeros({2});
  all_gather(*group, whole, part)->wait();
  reduce_scatter(*group, part, whole)->wait();
  barrier(*group);
  ledger.settle(1);
  const auto events = ledger.events();
  ASSERT_EQ(events.size(), 3U);
  EXPECT_STREQ(events[0].op, "all_gather");
  EXPECT_EQ(events[0].bytes, 2 * kWorldSize * 4);
  EXPECT_STREQ(events[1].op, "reduce_scatter");
  EXPECT_EQ(events[1].bytes, 2 * kWorldSize * 4);
  EXPECT_STREQ(events[2].op, "barrier");
}

}  // namespace
}  // namespace gradsync::comm
