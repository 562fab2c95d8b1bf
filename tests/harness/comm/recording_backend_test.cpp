// When a collective counts as complete, on a backend whose work has no future.
#include "harness/comm/recording_backend.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "harness/base/errors.h"

namespace gradsync::comm {
namespace {

// As gloo's on a GPU: who waits for it does the last of it.
class WorkOfWhoWaits final : public c10d::Work {
 public:
  bool wait(std::chrono::milliseconds) override { return true; }
};

class NoFutures final : public c10d::Backend {
 public:
  NoFutures() : Backend(0, 1) {}
  const std::string getBackendName() const override { return "no_futures"; }  // NOLINT
  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(at::Tensor&, at::Tensor&,
                                                      const c10d::ReduceScatterOptions&) override {
    return c10::make_intrusive<WorkOfWhoWaits>();
  }
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions&) override {
    return c10::make_intrusive<WorkOfWhoWaits>();
  }
};

class RecordingBackendTest : public ::testing::Test {
 protected:
  FakeClock clock;
  Ledger ledger{clock};
  c10::intrusive_ptr<c10d::Backend> backend =
      make_recording_backend(c10::make_intrusive<NoFutures>(), ledger);
};

TEST_F(RecordingBackendTest, AReductionWithoutAFutureEndsWhenItHasBeenAwaited) {
  at::Tensor output = at::zeros({4});
  at::Tensor input = at::zeros({4});
  const auto work = backend->_reduce_scatter_base(output, input, c10d::ReduceScatterOptions());
  clock.advance_ns(700);
  work->wait();
  ledger.settle(1);
  ASSERT_EQ(ledger.events().size(), 1U);
  const CommEvent event = ledger.events()[0];
  EXPECT_STREQ(event.op, "reduce_scatter");
  EXPECT_EQ(event.bytes, 16);
  EXPECT_EQ(event.end_ns - event.start_ns, 700);
}

TEST_F(RecordingBackendTest, ABarrierWithoutAFutureEndsWhenItIsIssued) {
  backend->barrier(c10d::BarrierOptions());
  ledger.settle(1);
  EXPECT_EQ(ledger.events()[0].end_ns, ledger.events()[0].start_ns);
}

}  // namespace
}  // namespace gradsync::comm
