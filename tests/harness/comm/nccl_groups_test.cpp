// Several NCCL groups of one rank, as hybrid sharding has, on a GPU that only counts.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "harness/comm/process_groups.h"
#include "tests/harness/measure/fake_timeline.h"

namespace gradsync::comm {
namespace {

// What no test here asks for.
[[noreturn]] void unexpected() {
  throw std::logic_error("not counted here");
}

class CountingGpu final : public Gpu {
 public:
  NcclGroup make_nccl_group(const c10::intrusive_ptr<c10d::Store>&,
                            const NcclOptions& options) override {
    return {make_fake_backend(options.rank, options.world_size), groups++};
  }
  std::int64_t mark_end(c10d::Work&, int queue) override {
    ended_on.push_back(queue);
    return timeline.mark();
  }
  std::int64_t mark() override { return timeline.mark(); }
  std::vector<std::int64_t> reached(const std::function<void()>& progress) override {
    return timeline.reached(progress);
  }
  void forget() override { timeline.forget(); }

  results::GpuDescription description() const override { unexpected(); }
  int nccl_version() const override { unexpected(); }
  void finish_collectives() override { unexpected(); }
  MemoryPeaks peaks() const override { unexpected(); }
  void reset_peaks() override { unexpected(); }
  void release_unused() override { unexpected(); }
  void set_memory_budget(std::int64_t) override { unexpected(); }
  std::shared_ptr<const models::Pace> pace() override { unexpected(); }

  int groups = 0;
  std::vector<int> ended_on;  // the queue of each collective
  test::FakeTimeline timeline;
};

TEST(NcclGroups, EachHasAQueueOfItsOwn) {
  CountingGpu gpu;
  Ledger ledger(steady_clock(), nullptr, &gpu);
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<c10::intrusive_ptr<c10d::ProcessGroup>> groups;
  for (const char* name : {"world", "node 0", "place 0"}) {
    GroupOptions options;
    options.name = name;
    options.backend = "nccl";
    options.gpu = &gpu;
    groups.push_back(make_process_group(store, options, ledger));
  }
  EXPECT_EQ(gpu.groups, 3);
  for (const int group : {1, 2, 1, 0}) {
    std::vector<at::Tensor> tensors{at::ones({2})};
    groups[static_cast<std::size_t>(group)]->allreduce(tensors)->wait();
  }
  EXPECT_EQ(gpu.ended_on, (std::vector<int>{1, 2, 1, 0}));

  // Group 1 is busy until 900: its second collective waits for that, those of the others do not.
  gpu.timeline.moments_ns = {100, 900, 200, 500, 300, 1000, 400, 450};
  ledger.settle(1);
  const std::vector<CommEvent> events = ledger.events();
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[1].end_ns - events[1].start_ns, 300);
  EXPECT_EQ(events[2].end_ns - events[2].start_ns, 100);
  EXPECT_EQ(events[3].end_ns - events[3].start_ns, 50);
}

}  // namespace
}  // namespace gradsync::comm
