// The account of tensors' bytes: exact, by category, over threads, and up to a budget.
//
// One meter per process: it is installed before the first case, and a case compares with what it
// found.
#include <ATen/ATen.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/core/CPUAllocator.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "harness/base/errors.h"
#include "harness/measure/memory.h"

namespace gradsync::measure {
namespace {

class InstalledMeter : public testing::Environment {
  void SetUp() override { meter().install({.estimate_reserved = true}); }
};
const auto* const installed_meter = testing::AddGlobalTestEnvironment(new InstalledMeter);

at::Tensor floats(std::int64_t count) {
  return at::empty({count}, at::kFloat);
}

class Memory : public testing::Test {
 protected:
  void SetUp() override {
    found_bytes_ = meter().allocated_bytes();
    found_ = meter().allocated_by_category();
    meter().reset_peak();
  }
  void TearDown() override {
    meter().set_budget_bytes(std::nullopt);
    meter().set_place(-1, -1, "");
    EXPECT_EQ(meter().allocated_bytes(), found_bytes_) << "something was counted and not freed";
  }

  // What this case holds.
  std::int64_t held() const { return meter().allocated_bytes() - found_bytes_; }
  std::int64_t held(MemoryCategory category) const {
    return bytes_of(meter().allocated_by_category(), category) - bytes_of(found_, category);
  }
  // The most it held.
  std::int64_t peak() const { return meter().peak_bytes() - found_bytes_; }
  std::int64_t peak(MemoryCategory category) const {
    return bytes_of(meter().peak_by_category(), category) - bytes_of(found_, category);
  }
  // Leaves `free_bytes` of a budget.
  void leave(std::int64_t free_bytes) {
    meter().set_budget_bytes(meter().allocated_bytes() + free_bytes);
  }

 private:
  std::int64_t found_bytes_ = 0;
  CategoryBytes found_{};
};

TEST_F(Memory, CountsWhatIsAskedToTheByte) {
  const at::Tensor four_thousand = floats(1000);
  EXPECT_EQ(held(), 4000);
  const at::Tensor three = at::empty({3}, at::kByte);
  EXPECT_EQ(held(), 4003);
  const at::Tensor nothing = at::empty({0}, at::kFloat);
  EXPECT_EQ(held(), 4003);
  {
    const at::Tensor temporary = four_thousand + 1;
    EXPECT_EQ(held(), 8003);
  }
  EXPECT_EQ(held(), 4003);
}

TEST_F(Memory, ViewsHoldNothingAndKeepTheirStorage) {
  at::Tensor view;
  {
    const at::Tensor base = floats(1000);
    view = base.view({10, 100}).slice(0, 2, 4).detach();
    EXPECT_EQ(held(), 4000);
  }
  EXPECT_EQ(held(), 4000);
  view.reset();
  EXPECT_EQ(held(), 0);
}

TEST_F(Memory, ResizeHoldsBothForAnInstant) {
  at::Tensor tensor = floats(1000);
  tensor.resize_({2000});
  EXPECT_EQ(held(), 8000);
  EXPECT_EQ(peak(), 12000);  // the old one until it is copied
  tensor.resize_({10});      // a storage never shrinks
  EXPECT_EQ(held(), 8000);
}

TEST_F(Memory, SetFreesTheStorageThatNobodyHoldsAnyMore) {
  at::Tensor tensor = floats(1000);
  const at::Tensor other = floats(10);
  tensor.set_(other);
  EXPECT_EQ(held(), 40);
}

TEST_F(Memory, StorageEmptiedAndRefilledUnderItsViews) {
  const at::Tensor flat = floats(1000);
  const at::Tensor view = flat.view({10, 100});
  c10::StorageImpl& storage = *flat.storage().unsafeGetStorageImpl();
  storage.set_data_ptr_noswap(c10::DataPtr(nullptr, c10::Device(c10::kCPU)));
  storage.set_nbytes(0);
  EXPECT_EQ(held(), 0);
  storage.set_data_ptr_noswap(storage.allocator()->allocate(4000));
  storage.set_nbytes(4000);
  EXPECT_EQ(held(), 4000);
  EXPECT_EQ(view.fill_(1).sum().item<float>(), 1000);
}

TEST_F(Memory, RawPointersAndClonesAreCountedToo) {
  c10::Allocator& allocator = *c10::GetCPUAllocator();
  void* const data = allocator.raw_allocate(100);
  std::fill_n(static_cast<char*>(data), 100, 'x');
  EXPECT_EQ(held(), 100);
  {
    const c10::DataPtr copy = allocator.clone(data, 60);
    EXPECT_EQ(held(), 160);
    EXPECT_EQ(static_cast<const char*>(copy.get())[59], 'x');
  }
  allocator.raw_deallocate(data);
  EXPECT_EQ(held(), 0);
}

TEST_F(Memory, ScopesNestAndTheInnermostCounts) {
  const at::Tensor other = floats(1);
  const MemoryScope activation(MemoryCategory::Activation);
  const at::Tensor first = floats(10);
  at::Tensor gathered;
  {
    const MemoryScope scope(MemoryCategory::GatheredParameter);
    gathered = floats(100);
  }
  const at::Tensor second = floats(1000);
  EXPECT_EQ(held(MemoryCategory::Other), 4);
  EXPECT_EQ(held(MemoryCategory::Activation), 4040);
  EXPECT_EQ(held(MemoryCategory::GatheredParameter), 400);
  gathered.reset();  // freed outside its scope, from its own category
  EXPECT_EQ(held(MemoryCategory::GatheredParameter), 0);
  EXPECT_EQ(held(MemoryCategory::Activation), 4040);
}

TEST_F(Memory, ScopeEndsOnAnException) {
  try {
    const MemoryScope scope(MemoryCategory::Communication);
    throw std::runtime_error("anything");
  } catch (const std::runtime_error&) {
  }
  const at::Tensor tensor = floats(10);
  EXPECT_EQ(held(MemoryCategory::Communication), 0);
  EXPECT_EQ(held(MemoryCategory::Other), 40);
}

TEST_F(Memory, BackwardAllocatesInTheScopeThatCallsIt) {
  const at::Tensor weight = at::ones({1000}).requires_grad_();
  const at::Tensor loss = (weight * 2).sum();
  EXPECT_EQ(held(MemoryCategory::UnshardedGradient), 0);
  {
    const MemoryScope scope(MemoryCategory::UnshardedGradient);
    loss.backward();
  }
  EXPECT_EQ(held(MemoryCategory::UnshardedGradient), 4000);  // the gradient; all else is gone
}

TEST_F(Memory, RelabelMovesABlockForGood) {
  at::Tensor tensor = floats(1000);
  relabel_memory(tensor.data_ptr(), MemoryCategory::ShardedGradient);
  EXPECT_EQ(held(MemoryCategory::Other), 0);
  EXPECT_EQ(held(MemoryCategory::ShardedGradient), 4000);
  EXPECT_EQ(held(), 4000);
  tensor.reset();
  EXPECT_EQ(held(MemoryCategory::ShardedGradient), 0);
}

TEST_F(Memory, RelabelOnlyFromACategoryLeavesTheOthers) {
  const at::Tensor tensor = floats(1000);
  relabel_memory(tensor.data_ptr(), MemoryCategory::UnshardedGradient, MemoryCategory::Activation);
  EXPECT_EQ(held(MemoryCategory::Other), 4000);
  relabel_memory(tensor.data_ptr(), MemoryCategory::UnshardedGradient, MemoryCategory::Other);
  EXPECT_EQ(held(MemoryCategory::UnshardedGradient), 4000);
}

TEST_F(Memory, RelabelLeavesAloneWhatIsNotABlock) {
  const at::Tensor tensor = floats(1000);
  std::array<float, 4> foreign{};
  const at::Tensor outside = at::from_blob(foreign.data(), {4}, at::kFloat);
  relabel_memory(tensor.slice(0, 500).data_ptr(), MemoryCategory::Communication);
  relabel_memory(outside.data_ptr(), MemoryCategory::Communication);
  relabel_memory(nullptr, MemoryCategory::Communication);
  EXPECT_EQ(held(MemoryCategory::Communication), 0);
  EXPECT_EQ(held(), 4000);
}

TEST_F(Memory, PeakIsTheHighestInstantWithItsComposition) {
  {
    const MemoryScope scope(MemoryCategory::Activation);
    const at::Tensor large = floats(1000);
  }
  at::Tensor state;
  {
    const MemoryScope scope(MemoryCategory::OptimizerState);
    state = floats(500);
  }
  const at::Tensor small = floats(400);
  EXPECT_EQ(held(), 3600);
  EXPECT_EQ(peak(), 4000);
  EXPECT_EQ(peak(MemoryCategory::Activation), 4000);
  EXPECT_EQ(peak(MemoryCategory::OptimizerState), 0);
  const at::Tensor more = floats(101);
  EXPECT_EQ(peak(), 4004);
  EXPECT_EQ(peak(MemoryCategory::Activation), 0);
  EXPECT_EQ(peak(MemoryCategory::OptimizerState), 2000);
  EXPECT_EQ(peak(MemoryCategory::Other), 2004);
}

TEST_F(Memory, ResetPeakBeginsAtWhatIsHeld) {
  const at::Tensor kept = floats(10);
  floats(1000).reset();
  EXPECT_EQ(peak(), 4040);
  meter().reset_peak();
  EXPECT_EQ(peak(), 40);
  EXPECT_EQ(peak(MemoryCategory::Other), 40);
}

TEST_F(Memory, LabelGivenRightAfterThePeakIsInItsComposition) {
  at::Tensor temporary = floats(10);
  const at::Tensor tensor = floats(1000);
  temporary.reset();
  relabel_memory(tensor.data_ptr(), MemoryCategory::UnshardedGradient);
  EXPECT_EQ(peak(MemoryCategory::UnshardedGradient), 4000);
  EXPECT_EQ(peak(MemoryCategory::Other), 40);
  EXPECT_EQ(peak(), 4040);
  const at::Tensor next = floats(1);  // below the peak: from here labels no longer concern it
  relabel_memory(tensor.data_ptr(), MemoryCategory::Communication);
  EXPECT_EQ(peak(MemoryCategory::UnshardedGradient), 4000);
  EXPECT_EQ(peak(MemoryCategory::Communication), 0);
}

// One forward and backward, and the gradient it gives.
at::Tensor train(const at::Tensor& weight, const at::Tensor& input) {
  weight.mutable_grad().reset();
  at::relu(input.matmul(weight)).pow(2).mean().backward();
  return weight.grad().clone();
}

TEST_F(Memory, BudgetIsExactAndTrainingGoesOnAfterARefusal) {
  at::manual_seed(1);
  const at::Tensor weight = at::randn({64, 32}).requires_grad_();
  const at::Tensor input = at::randn({16, 64});
  const at::Tensor gradient = train(weight, input);
  meter().reset_peak();
  train(weight, input);
  const std::int64_t peak_bytes = meter().peak_bytes();

  meter().set_budget_bytes(peak_bytes);
  EXPECT_TRUE(at::equal(train(weight, input), gradient));
  meter().set_budget_bytes(peak_bytes - 1);
  EXPECT_THROW(train(weight, input), c10::OutOfMemoryError);
  meter().set_budget_bytes(peak_bytes);
  EXPECT_TRUE(at::equal(train(weight, input), gradient));
}

TEST_F(Memory, RefusalSaysWhatWasAskedAndWhere) {
  const at::Tensor held_before = floats(10);
  leave(512);
  const std::int64_t budget_bytes = meter().allocated_bytes() + 512;
  meter().set_place(3, 1, "backward", "layer2");
  try {
    floats(256);
    FAIL() << "1024 bytes were given where 512 were left";
  } catch (const c10::OutOfMemoryError& error) {
    EXPECT_EQ(std::string(error.what_without_backtrace()),
              fmt::format("asked 1024 bytes, had 512 of a budget of {} bytes", budget_bytes));
  }
  const auto report = meter().last_oom();
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->asked_bytes, 1024);
  EXPECT_EQ(report->had_bytes, 512);
  EXPECT_EQ(report->budget_bytes, budget_bytes);
  EXPECT_EQ(report->place, (MemoryPlace{3, 1, "backward", "layer2"}));
  EXPECT_EQ(held(), 40);  // what was refused is not counted
  const at::Tensor fits = floats(128);
  EXPECT_EQ(held(), 552);
}

TEST_F(Memory, BudgetBelowWhatIsHeldLeavesNothing) {
  const at::Tensor held_before = floats(10);
  leave(-20);
  EXPECT_THROW(floats(1), c10::OutOfMemoryError);
  EXPECT_EQ(meter().last_oom()->had_bytes, 0);
}

TEST_F(Memory, MachineWithoutMemoryIsAnOutOfMemoryToo) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer ends the program instead of refusing";
#endif
  constexpr std::int64_t kMoreThanAddresses = std::int64_t{1} << 47;
  EXPECT_THROW(at::empty({kMoreThanAddresses}, at::kByte), c10::OutOfMemoryError);
  const auto report = meter().last_oom();
  EXPECT_EQ(report->asked_bytes, kMoreThanAddresses);
  EXPECT_EQ(report->budget_bytes, 0);
}

TEST_F(Memory, ThreadsHaveTheirOwnScopesAndOneAccount) {
  const MemoryScope scope(MemoryCategory::Activation);
  at::Tensor from_thread;
  std::thread([&] {
    const MemoryScope of_thread(MemoryCategory::OptimizerState);
    from_thread = floats(100);
  }).join();
  EXPECT_EQ(held(MemoryCategory::OptimizerState), 400);  // not the scope of this thread
  std::thread([&] { from_thread.reset(); }).join();
  EXPECT_EQ(held(), 0);
}

// A thread that never opened a scope is a library's, and what it takes is its own affair.
TEST_F(Memory, ThreadsOfLibrariesAreLeftOut) {
  at::Tensor from_thread;
  std::thread([&] { from_thread = floats(100); }).join();
  EXPECT_EQ(held(), 0);
  EXPECT_EQ(from_thread.sum().item<float>(), from_thread.sum().item<float>());
  from_thread.reset();
  EXPECT_EQ(held(), 0);
}

TEST_F(Memory, ManyThreadsAtOnceLoseNoByte) {
  constexpr int kThreads = 4;
  constexpr int kRepeats = 500;
  std::vector<at::Tensor> kept(kThreads);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&kept, thread] {
      const MemoryScope scope(thread % 2 == 0 ? MemoryCategory::Communication
                                              : MemoryCategory::OptimizerState);
      for (int i = 1; i <= kRepeats; ++i) kept[static_cast<std::size_t>(thread)] = floats(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(held(MemoryCategory::Communication), 2 * 4 * kRepeats);
  EXPECT_EQ(held(MemoryCategory::OptimizerState), 2 * 4 * kRepeats);
  EXPECT_GE(peak(), held());
  kept.clear();
  EXPECT_EQ(held(), 0);
}

TEST_F(Memory, TimelineHasEveryChangeWithItsTimeAndPlace) {
  FakeClock clock;
  const std::int64_t start_ns = clock.now_ns();
  const std::int64_t at_start = meter().allocated_bytes();
  meter().set_place(0, 1, "forward");
  meter().begin_timeline(clock);
  clock.advance_ns(10);
  at::Tensor tensor = floats(100);
  clock.advance_ns(10);
  relabel_memory(tensor.data_ptr(), MemoryCategory::Communication);
  meter().set_place(0, 1, "backward");
  clock.advance_ns(10);
  tensor.reset();
  const auto points = meter().end_timeline();
  ASSERT_EQ(points.size(), 4U);
  const std::vector<std::int64_t> totals{0, 400, 400, 0};
  const std::vector<std::int64_t> communication{0, 0, 400, 0};
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(points[i].time_ns, start_ns + 10 * static_cast<std::int64_t>(i));
    EXPECT_EQ(total_bytes(points[i].bytes) - at_start, totals[i]);
    EXPECT_EQ(bytes_of(points[i].bytes, MemoryCategory::Communication), communication[i]);
    EXPECT_EQ(*points[i].place, (MemoryPlace{0, 1, i < 3 ? "forward" : "backward", ""}));
  }
  EXPECT_TRUE(meter().end_timeline().empty());  // it ended
}

// An estimate, of a GPU that did the same: 30 MB take a segment of 30 MiB, and 5 MB are cut from it
// when it is free.
TEST_F(Memory, EstimatesWhatAGpuWouldReserve) {
  const std::int64_t before = meter().peak_reserved_estimate_bytes().value();
  at::empty({30'000'000}, at::kByte).reset();
  EXPECT_EQ(meter().peak_reserved_estimate_bytes(), before + (30 << 20));
  meter().reset_peak();
  const at::Tensor smaller = at::empty({5'000'000}, at::kByte);
  EXPECT_EQ(meter().peak_reserved_estimate_bytes(), before + (30 << 20));
}

TEST_F(Memory, ModelOfTheCachingAllocatorHasThisTorchsConstants) {
  namespace torchs = c10::CachingAllocator;
  using Config = torchs::AcceleratorAllocatorConfig;
  using Model = CachingAllocatorModel;
  EXPECT_EQ(std::size_t{Model::kMinBlockSize}, torchs::kMinBlockSize);
  EXPECT_EQ(std::size_t{Model::kSmallSize}, torchs::kSmallSize);
  EXPECT_EQ(std::size_t{Model::kSmallBuffer}, torchs::kSmallBuffer);
  EXPECT_EQ(std::size_t{Model::kMinLargeAlloc}, torchs::kMinLargeAlloc);
  EXPECT_EQ(std::size_t{Model::kRoundLarge}, torchs::kRoundLarge);
  EXPECT_EQ(std::size_t{Model::kLargeBuffer}, Config::large_segment_size());
  EXPECT_EQ(Config::max_split_size(), std::numeric_limits<std::size_t>::max());
  EXPECT_EQ(Config::roundup_power2_divisions(3 << 20), 0U);
  EXPECT_EQ(Config::garbage_collection_threshold(), 0);
  EXPECT_FALSE(Config::use_expandable_segments());
}

TEST_F(Memory, ChangesAreTakenMicroBatchByMicroBatch) {
  const auto play = [](int micro_batch, std::int64_t count) {
    meter().set_place(0, micro_batch, "forward");
    const at::Tensor gone = floats(count);
    meter().set_phase("backward");
  };
  meter().begin_changes();
  play(0, 100);
  const MemoryChanges first = meter().take_changes();
  play(1, 100);
  const MemoryChanges second = meter().take_changes();
  play(2, 101);
  const MemoryChanges third = meter().take_changes();
  meter().end_changes();
  ASSERT_EQ(second.changes.size(), 3U) << "what it began with, what was made, what went";
  EXPECT_EQ(total_bytes(second.changes[1].bytes) - total_bytes(second.changes[0].bytes), 400);
  EXPECT_EQ(second.changes[1].place->phase, "forward");
  EXPECT_EQ(second.changes[2].place->phase, "backward");
  EXPECT_FALSE(second.reserved_like.empty());
  EXPECT_TRUE(repeats(second, first));
  EXPECT_FALSE(repeats(third, second));
}

TEST_F(Memory, AccountsAreAsIfEachWereAlone) {
  at::Tensor first = floats(1000);
  meter().switch_account(1);
  EXPECT_EQ(meter().allocated_bytes(), 0);
  EXPECT_EQ(meter().peak_reserved_estimate_bytes(), 0);
  const at::Tensor second = floats(10);
  meter().set_budget_bytes(40);
  EXPECT_THROW(floats(1), c10::OutOfMemoryError);
  meter().set_budget_bytes(std::nullopt);
  relabel_memory(first.data_ptr(), MemoryCategory::Communication);  // in its own account
  EXPECT_EQ(bytes_of(meter().allocated_by_category(), MemoryCategory::Communication), 0);
  first.reset();
  EXPECT_EQ(meter().allocated_bytes(), 40);
  EXPECT_EQ(meter().peak_bytes(), 40);
  EXPECT_EQ(meter().peak_reserved_estimate_bytes(), 2 << 20);
  meter().switch_account(0);
  EXPECT_EQ(held(), 0);
  EXPECT_EQ(peak(), 4000);
}

TEST_F(Memory, WhatIsOffloadedIsInTheHostsAccountAlone) {
  const HeldMemory before = meter().host();
  const at::Tensor on_device = floats(100);
  leave(0);
  std::optional<at::Tensor> on_host;
  {
    const HostMemoryScope host;
    const MemoryScope moments(MemoryCategory::OptimizerState);
    on_host = floats(1000);
    { const HostMemoryScope again; }
    floats(500);
  }
  EXPECT_EQ(held(), 400) << "and no budget of the device's refuses it";
  EXPECT_EQ(peak(), 400);
  EXPECT_EQ(peak(MemoryCategory::OptimizerState), 0);
  HeldMemory seen = meter().host();
  EXPECT_EQ(seen.allocated_bytes - before.allocated_bytes, 4000);
  EXPECT_EQ(seen.peak_bytes - before.allocated_bytes, 6000);
  EXPECT_EQ(bytes_of(seen.peak, MemoryCategory::OptimizerState) -
                bytes_of(before.allocated, MemoryCategory::OptimizerState),
            6000);
  EXPECT_THROW(floats(1), c10::OutOfMemoryError) << "the scope has ended";
  relabel_memory(on_host->data_ptr(), MemoryCategory::ShardedGradient);
  on_host.reset();
  meter().reset_peak();
  seen = meter().host();
  EXPECT_EQ(seen.peak_bytes, before.allocated_bytes);
  EXPECT_EQ(seen.allocated, before.allocated);
}

TEST_F(Memory, ChangesOnTheHostAreChanges) {
  meter().begin_changes();
  const auto changes = [](std::int64_t floats_on_host) {
    { const at::Tensor on_device = floats(100); }
    {
      const HostMemoryScope host;
      floats(floats_on_host);
    }
    return meter().take_changes();
  };
  const MemoryChanges first = changes(10);
  EXPECT_TRUE(repeats(changes(10), first));
  EXPECT_FALSE(repeats(changes(11), first));
  meter().end_changes();
}

TEST_F(Memory, InstallsOnce) {
  EXPECT_TRUE(meter().installed());
  EXPECT_THROW(meter().install(), InternalError);
}

}  // namespace
}  // namespace gradsync::measure
