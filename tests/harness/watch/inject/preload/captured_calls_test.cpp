// Which calls of NCCL's a launch of a CUDA graph runs.
#include "harness/watch/inject/preload/captured_calls.h"

#include <gmock/gmock.h>

#include <vector>

namespace gradsync::watch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Handles: any addresses will do.
constexpr char kHandles[8] = {};
constexpr const void* kStream = &kHandles[0];
constexpr const void* kSideStream = &kHandles[1];
constexpr const void* kOtherStream = &kHandles[2];
constexpr const void* kGraph = &kHandles[3];
constexpr const void* kOtherGraph = &kHandles[4];
constexpr const void* kExecutable = &kHandles[5];
constexpr const void* kOtherExecutable = &kHandles[6];

NcclCall call_of(std::int64_t bytes) {
  return {"all_reduce", bytes, 0};
}

std::vector<std::int64_t> visited;

class CapturedCallsTest : public testing::Test {
 protected:
  // It is made for a whole process, and frees nothing by itself.
  ~CapturedCallsTest() override {
    for (const void* stream : {kStream, kOtherStream}) captured_.end(stream, nullptr);
    for (const void* graph : {kGraph, kOtherGraph}) captured_.forget_graph(graph);
    for (const void* each : {kExecutable, kOtherExecutable}) captured_.forget_executable(each);
  }

  // A graph of these calls, captured by way of a stream that joined the first.
  void capture(const void* graph, const std::vector<std::int64_t>& bytes) {
    captured_.begin(kStream);
    for (const std::int64_t each : bytes) EXPECT_TRUE(captured_.add(kSideStream, call_of(each)));
    captured_.end(kStream, graph);
  }

  std::vector<std::int64_t> bytes_of(const void* executable) {
    visited.clear();
    captured_.for_each(executable, [](const NcclCall& call) { visited.push_back(call.bytes); });
    return visited;
  }

  CapturedCalls captured_;
};

TEST_F(CapturedCallsTest, AnExecutableHasTheCallsOfItsGraphInOrder) {
  EXPECT_FALSE(captured_.is_under_way());
  captured_.begin(kStream);
  EXPECT_TRUE(captured_.is_under_way());
  captured_.end(kStream, kOtherGraph);
  EXPECT_FALSE(captured_.is_under_way());
  capture(kGraph, {3, 1, 2});
  captured_.instantiate(kGraph, kExecutable);
  captured_.instantiate(kOtherGraph, kOtherExecutable);
  EXPECT_THAT(bytes_of(kExecutable), ElementsAre(3, 1, 2));
  EXPECT_THAT(bytes_of(kExecutable), ElementsAre(3, 1, 2)) << "each launch";
  EXPECT_THAT(bytes_of(kOtherExecutable), IsEmpty());
  EXPECT_THAT(bytes_of(kGraph), IsEmpty());
}

TEST_F(CapturedCallsTest, AnExecutableOutlivesItsGraph) {
  capture(kGraph, {5});
  captured_.instantiate(kGraph, kExecutable);
  captured_.instantiate(kGraph, kOtherExecutable);
  captured_.forget_graph(kGraph);
  captured_.forget_executable(kOtherExecutable);
  EXPECT_THAT(bytes_of(kExecutable), ElementsAre(5));
  EXPECT_THAT(bytes_of(kOtherExecutable), IsEmpty());
}

TEST_F(CapturedCallsTest, HandlesThatComeAgainAreNew) {
  capture(kGraph, {5});
  captured_.instantiate(kGraph, kExecutable);
  captured_.forget_graph(kGraph);
  capture(kOtherGraph, {6});
  captured_.instantiate(kOtherGraph, kExecutable);
  EXPECT_THAT(bytes_of(kExecutable), ElementsAre(6));
  captured_.instantiate(kGraph, kExecutable);  // a graph without calls
  EXPECT_THAT(bytes_of(kExecutable), IsEmpty());
}

TEST_F(CapturedCallsTest, OfCapturesAtTheSameTimeTheStreamTells) {
  captured_.begin(kStream);
  captured_.begin(kOtherStream);
  EXPECT_TRUE(captured_.add(kStream, call_of(1)));
  EXPECT_TRUE(captured_.add(kOtherStream, call_of(2)));
  EXPECT_FALSE(captured_.add(kSideStream, call_of(3))) << "it may have joined either";
  captured_.end(kStream, kGraph);
  EXPECT_TRUE(captured_.add(kSideStream, call_of(4))) << "one is left";
  captured_.end(kOtherStream, kOtherGraph);
  captured_.instantiate(kGraph, kExecutable);
  captured_.instantiate(kOtherGraph, kOtherExecutable);
  EXPECT_THAT(bytes_of(kExecutable), ElementsAre(1));
  EXPECT_THAT(bytes_of(kOtherExecutable), ElementsAre(2, 4));
}

TEST_F(CapturedCallsTest, ACaptureThatFailsLeavesNothing) {
  capture(nullptr, {1});
  EXPECT_FALSE(captured_.is_under_way());
  EXPECT_FALSE(captured_.add(kStream, call_of(2)));
  captured_.instantiate(nullptr, kExecutable);
  EXPECT_THAT(bytes_of(kExecutable), IsEmpty());
}

}  // namespace
}  // namespace gradsync::watch
