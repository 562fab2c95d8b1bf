#include "harness/predict/schedule.h"

#include <gmock/gmock.h>

namespace gradsync::predict {
namespace {

TEST(Schedule, ASpanBeginsWhenItsLaneIsFreeAndWhatItNeedsIsThere) {
  Schedule schedule;
  const int first = schedule.compute("backward", 0, 2);
  const int sent = schedule.send("bucket 1", 0, {3, 0, 0}, {first});
  schedule.compute("backward", 0, 1);
  const int second = schedule.send("bucket 2", 0, {1, 0, 0}, {schedule.last_on(Lane::Compute)});
  schedule.compute("optimizer", 0, 1, {sent, second});
  const auto& spans = schedule.spans();
  EXPECT_DOUBLE_EQ(spans[1].start_s, 2);
  EXPECT_DOUBLE_EQ(spans[2].start_s, 2);  // the lanes run side by side
  EXPECT_DOUBLE_EQ(spans[3].start_s, 5);  // ready at 3, the wire is free at 5
  EXPECT_DOUBLE_EQ(spans[4].start_s, 6);
  EXPECT_DOUBLE_EQ(schedule.end_s(), 7);
  EXPECT_DOUBLE_EQ(schedule.exposed_s(), 3);
}

TEST(Schedule, ComputesMoreSlowlyWhileTheWireTakesTheProcessor) {
  Schedule schedule;
  const int first = schedule.compute("backward", 0, 2);
  CollectiveTime half{4, 0, 0};  // from 2 to 6, half of the processor
  half.processor_s = 2;
  schedule.send("bucket 1", 0, half, {first});
  for (int i = 0; i < 3; ++i) schedule.compute("backward", 0, i == 1 ? 2 : 1);
  const auto& spans = schedule.spans();
  EXPECT_DOUBLE_EQ(spans[2].end_s, 4);      // all beside the wire
  EXPECT_DOUBLE_EQ(spans[3].end_s, 6 + 1);  // half of it
  EXPECT_DOUBLE_EQ(spans[4].end_s, 8);      // none
  EXPECT_DOUBLE_EQ(schedule.exposed_s(), 0);
}

TEST(Schedule, TheCriticalPathHasNoGaps) {
  Schedule schedule;
  const int first = schedule.compute("backward", 0, 2);
  schedule.send("bucket 1", 0, {3, 0, 0}, {first});
  schedule.compute("backward", 0, 1);
  const int last = schedule.send("bucket 2", 0, {1, 0, 0}, {2});
  schedule.compute("optimizer", 0, 1, {last});
  std::vector<std::string> names;
  double at_s = 0;
  for (const Span& span : schedule.critical_path()) {
    EXPECT_DOUBLE_EQ(span.start_s, at_s);
    at_s = span.end_s;
    names.push_back(span.name);
  }
  EXPECT_DOUBLE_EQ(at_s, schedule.end_s());
  EXPECT_THAT(names, ::testing::ElementsAre("backward", "bucket 1", "bucket 2", "optimizer"));
}

}  // namespace
}  // namespace gradsync::predict
