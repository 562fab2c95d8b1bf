#include "harness/watch/read/hook_events.h"

#include <gmock/gmock.h>

#include <tuple>
#include <utility>

#include "harness/base/errors.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::watch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const std::string kStart =
    R"({"kind":"start","schema":"gradsync.watch_hook/1","pid":42,"python":"3.11.2"})"
    "\n";
const std::string kRank = R"({"kind":"rank","rank":1,"world_size":2})"
                          "\n";
const std::string kForward =
    R"({"kind":"forward","start_ns":100,"end_ns":200,"thread":7,"name":"DistributedDataParallel",)"
    R"("object":1,"detail":"no_sync","file":"train.py","line":21})"
    "\n";

std::string refusal_of(const std::string& text) {
  try {
    parse_hook_events(text, "hook-42.jsonl");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

Event event(EventKind kind, std::int64_t start_ns, std::int64_t end_ns) {
  Event made;
  made.kind = kind;
  made.start_ns = start_ns;
  made.end_ns = end_ns;
  return made;
}

Event hooked(EventKind kind, std::int64_t start_ns, std::int64_t end_ns) {
  Event made = event(kind, start_ns, end_ns);
  made.object = 5;
  made.file = "train.py";
  made.line = 21;
  made.detail = "no_sync";
  return made;
}

TEST(HookEvents, TellWhenTheProfilerRecorded) {
  const std::string profiled = R"({"kind":"profiled","start_ns":7,"end_ns":9})"
                               "\n";
  RankEvents native;
  merge(native, parse_hook_events(kStart + profiled, "hook-42.jsonl"));
  EXPECT_EQ(native.profiled->start_ns, 7);
  EXPECT_EQ(native.profiled->end_ns, 9);
}

TEST(HookEvents, ExplainTheStacksOfWork) {
  const std::string stack =
      R"({"kind":"work_stack","number":3,"lines":[{"file":"model.py","line":2,"text":"y = w @ x"},)"
      R"({"file":"train.py","line":20,"text":"train"}]})"
      "\n";
  RankEvents native;
  merge(native, parse_hook_events(kStart + stack, "hook-42.jsonl"));
  ASSERT_THAT(native.stacks[3], SizeIs(2));
  EXPECT_EQ(native.stacks[3][0].file, "model.py");
  EXPECT_EQ(native.stacks[3][1].line, 20);
  EXPECT_EQ(native.stacks[3][1].text, "train");
}

TEST(HookEvents, AreReadWithAllTheirFields) {
  const RankEvents read = parse_hook_events(kStart + kRank + kForward, "hook-42.jsonl");
  EXPECT_EQ(read.pid, 42);
  EXPECT_EQ(read.rank, 1);
  EXPECT_EQ(read.world_size, 2);
  EXPECT_THAT(read.faults, IsEmpty());
  ASSERT_THAT(read.events, SizeIs(1));
  const Event& forward = read.events[0];
  EXPECT_EQ(forward.kind, EventKind::Forward);
  EXPECT_EQ(forward.start_ns, 100);
  EXPECT_EQ(forward.end_ns, 200);
  EXPECT_EQ(forward.thread, 7);
  EXPECT_EQ(forward.name, "DistributedDataParallel");
  EXPECT_EQ(forward.object, 1);
  EXPECT_EQ(forward.bytes, -1);
  EXPECT_EQ(forward.detail, "no_sync");
  EXPECT_EQ(forward.file, "train.py");
  EXPECT_EQ(forward.line, 21);
}

TEST(HookEvents, AreOfAllKindsAndByTime) {
  std::string text = kStart;
  int at_ns = 100;
  for (const char* kind :
       {"forward", "backward", "optimizer_step", "no_sync_enter", "no_sync_leave", "wrap", "sync",
        "zero_grad", "gradient_use", "comm_hook", "call", "inner_forward"}) {
    text +=
        "{\"kind\":\"" + std::string(kind) + "\",\"start_ns\":" + std::to_string(at_ns--) + "}\n";
  }
  const RankEvents read = parse_hook_events(text, "hook-42.jsonl");
  std::vector<EventKind> kinds;
  for (const Event& each : read.events) kinds.push_back(each.kind);
  EXPECT_THAT(kinds,
              ElementsAre(EventKind::InnerForward, EventKind::Call, EventKind::CommHook,
                          EventKind::GradientUse, EventKind::ZeroGrad, EventKind::Sync,
                          EventKind::Wrap, EventKind::NoSyncLeave, EventKind::NoSyncEnter,
                          EventKind::OptimizerStep, EventKind::Backward, EventKind::Forward));
}

TEST(HookEvents, GroupsAreJoinedFromSeveralLines) {
  const std::string mesh =
      R"({"kind":"group","name":"3","ranks":[0,1],"axis":"dp_shard","role":"","replicas":""})"
      "\n";
  const std::string wrapper =
      R"({"kind":"group","name":"3","ranks":[0,1],"axis":"","role":"shard","replicas":"1"})"
      "\n";
  const RankEvents read = parse_hook_events(kStart + mesh + wrapper, "hook-42.jsonl");
  ASSERT_THAT(read.groups, SizeIs(1));
  EXPECT_EQ(read.groups[0].axis, "dp_shard");
  EXPECT_EQ(read.groups[0].role, GroupRole::Shard);
  EXPECT_EQ(read.groups[0].replicas, "1");
  EXPECT_TRUE(read.groups[0].is_told);
  EXPECT_THAT(read.groups[0].ranks, ElementsAre(0, 1));
  RankEvents native;
  merge(native, read);
  EXPECT_THAT(native.groups, SizeIs(1));
}

TEST(HookEvents, WhatGradientsHoldIsKnownByModel) {
  const std::string line =
      R"({"kind":"held_gradients","object":2,"shard_bytes":8,"reduced_bytes":4,"whole_bytes":16})"
      "\n";
  RankEvents native;
  merge(native, parse_hook_events(kStart + line, "hook-42.jsonl"));
  ASSERT_TRUE(native.held.contains(2));
  EXPECT_EQ(native.held[2].shard_bytes, 8);
  EXPECT_EQ(native.held[2].reduced_bytes, 4);
  EXPECT_EQ(native.held[2].whole_bytes, 16);
  EXPECT_EQ(native.held[2].gathered_bytes, 0);
}

TEST(HookEvents, Fsdp1CannotDeferReplicasAndMayLeaveParametersGathered) {
  const std::string line =
      R"({"kind":"held_gradients","object":2,"shard_bytes":8,"reduced_bytes":-1,"whole_bytes":16,)"
      R"("gathered_bytes":32})"
      "\n";
  RankEvents native;
  merge(native, parse_hook_events(kStart + line, "hook-42.jsonl"));
  ASSERT_TRUE(native.held.contains(2));
  EXPECT_EQ(native.held[2].reduced_bytes, -1);
  EXPECT_EQ(native.held[2].gathered_bytes, 32);
}

TEST(HookEvents, ALineThatIsCutOffIsAFault) {
  for (std::size_t left = 1; left < kForward.size(); ++left) {
    const std::string text = kStart + kRank + kForward.substr(0, left);
    const RankEvents read = parse_hook_events(text, "hook-42.jsonl");
    EXPECT_THAT(read.events, IsEmpty());
    EXPECT_THAT(read.faults, ElementsAre("hook-42.jsonl: its last line is cut off"));
  }
  EXPECT_THAT(parse_hook_events("", "hook-42.jsonl").events, IsEmpty());
}

TEST(HookEvents, FaultsAreKept) {
  const RankEvents read = parse_hook_events(
      kStart + "{\"kind\":\"fault\",\"sentence\":\"the hook stopped\"}\n", "hook-42.jsonl");
  EXPECT_THAT(read.faults, ElementsAre("the hook stopped"));
}

TEST(HookEvents, WhatIsNoEventIsRefusedByItsLine) {
  EXPECT_THAT(refusal_of(kForward), HasSubstr("expected \"start\" in the first line"));
  EXPECT_THAT(refusal_of("[]\n"), HasSubstr("line 1"));
  EXPECT_THAT(refusal_of(kStart + "{\n"), HasSubstr("line 2: not valid JSON"));
  EXPECT_THAT(refusal_of(kStart + "7\n"), HasSubstr("line 2"));
  EXPECT_THAT(refusal_of(kStart + "{\"kind\":\"dance\",\"start_ns\":1}\n"),
              HasSubstr("field 'kind': got \"dance\""));
  EXPECT_THAT(refusal_of(kStart + "{\"kind\":\"forward\"}\n"), HasSubstr("start_ns"));
  EXPECT_THAT(refusal_of(kStart + "{\"kind\":\"forward\",\"start_ns\":2,\"end_ns\":1}\n"),
              HasSubstr("end_ns"));
  EXPECT_THAT(refusal_of(kStart + "{\"kind\":\"forward\",\"start_ns\":2,\"surprise\":1}\n"),
              HasSubstr("surprise"));
  EXPECT_THAT(refusal_of(kStart + "{\"kind\":\"forward\",\"start_ns\":2,\"line\":99999999999}\n"),
              HasSubstr("line"));
  EXPECT_THAT(refusal_of(R"({"kind":"start","schema":"gradsync.watch_hook/2","pid":1,"python":"4"})"
                         "\n"),
              HasSubstr("schema"));
  const std::string group = kStart + R"({"kind":"group","name":"3","ranks":)";
  EXPECT_THAT(refusal_of(group + "[-1]}\n"), HasSubstr("field 'ranks[0]': got -1"));
  EXPECT_THAT(refusal_of(group + "[0],\"role\":\"both\"}\n"),
              HasSubstr("field 'role': got \"both\""));
}

TEST(MergeHook, AForwardThatBothSawIsOneEvent) {
  RankEvents native;
  native.rank = 1;
  native.world_size = 2;
  native.events = {event(EventKind::Forward, 105, 190), event(EventKind::Collective, 110, 120),
                   event(EventKind::Forward, 305, 390)};
  RankEvents hook;
  hook.events = {hooked(EventKind::Forward, 100, 200), hooked(EventKind::Forward, 500, 600)};
  hook.faults = {"something"};
  merge(native, hook);
  ASSERT_THAT(native.events, SizeIs(4));
  EXPECT_EQ(native.events[0].start_ns, 100);
  EXPECT_EQ(native.events[0].end_ns, 200);
  EXPECT_EQ(native.events[0].object, 5);
  EXPECT_EQ(native.events[0].line, 21);
  EXPECT_EQ(native.events[0].detail, "no_sync");
  EXPECT_EQ(native.events[1].kind, EventKind::Collective);
  EXPECT_EQ(native.events[1].object, 0);
  EXPECT_EQ(native.events[2].object, 0) << "the hook did not see this one";
  EXPECT_EQ(native.events[3].start_ns, 500) << "the library did not see this one";
  EXPECT_THAT(native.faults, ElementsAre("something"));
  EXPECT_EQ(native.rank, 1);
}

TEST(MergeHook, OfABackwardTheHooksTimesCount) {
  RankEvents native;
  // One call of backward may be several runs for the library; torch.autograd.grad is one alone.
  native.events = {event(EventKind::Backward, 10, 20), event(EventKind::Backward, 105, 120),
                   event(EventKind::Backward, 130, 140)};
  native.events[1].detail = "0";
  native.events[2].detail = "8";
  RankEvents hook;
  hook.events = {hooked(EventKind::Backward, 100, 200)};
  hook.events[0].detail = "";
  merge(native, hook);
  ASSERT_THAT(native.events, SizeIs(2));
  EXPECT_EQ(native.events[0].end_ns, 20);
  EXPECT_EQ(native.events[1].start_ns, 100);
  EXPECT_EQ(native.events[1].end_ns, 200);
  EXPECT_EQ(native.events[1].detail, "8") << "gradients, which the library alone counts";
}

TEST(MergeHook, ABackwardWithinAnotherHasItsOwnGradients) {
  RankEvents native;
  native.events = {event(EventKind::Backward, 110, 190), event(EventKind::Backward, 135, 145)};
  native.events[0].detail = "1";
  native.events[1].detail = "4";
  RankEvents hook;
  hook.events = {event(EventKind::Backward, 100, 200), event(EventKind::Backward, 130, 150)};
  merge(native, hook);
  ASSERT_THAT(native.events, SizeIs(2));
  EXPECT_EQ(native.events[0].end_ns, 200);
  EXPECT_EQ(native.events[0].detail, "1");
  EXPECT_EQ(native.events[1].end_ns, 150);
  EXPECT_EQ(native.events[1].detail, "4");
}

TEST(MergeHook, ABackwardOfTheHooksAccumulatesThoughTheLibrarySawNoGradientAccumulated) {
  RankEvents native;  // what a compiler runs while it traces
  native.events = {event(EventKind::Backward, 130, 140)};
  native.events[0].detail = "0";
  RankEvents hook;
  hook.events = {hooked(EventKind::Backward, 100, 200)};
  hook.events[0].detail = "";
  merge(native, hook);
  ASSERT_THAT(native.events, SizeIs(1));
  EXPECT_EQ(native.events[0].start_ns, 100);
  EXPECT_FALSE(accumulates_nothing(native.events[0]));
}

TEST(MergeHook, WhatTheHookAloneSeesIsAdded) {
  RankEvents native;
  native.events = {event(EventKind::OptimizerStep, 100, 110)};
  RankEvents hook;
  hook.pid = 42;
  hook.rank = 1;
  hook.world_size = 2;
  hook.events = {event(EventKind::NoSyncEnter, 10, 10), event(EventKind::NoSyncLeave, 20, 20),
                 event(EventKind::Wrap, 5, 5),          event(EventKind::Sync, 30, 30),
                 event(EventKind::ZeroGrad, 120, 121),  event(EventKind::OptimizerStep, 101, 109)};
  merge(native, hook);
  EXPECT_THAT(native.events, SizeIs(6));
  EXPECT_EQ(native.events.front().kind, EventKind::Wrap);
  EXPECT_EQ(native.events.back().kind, EventKind::ZeroGrad);
  EXPECT_EQ(native.pid, 42);
  EXPECT_EQ(native.rank, 1);
  EXPECT_EQ(native.world_size, 2);
}

TEST(MergeHook, ThePlaceIsThatInTheLargerGroup) {
  const auto place_of_both = [](std::pair<int, int> in_native, std::pair<int, int> in_hook) {
    RankEvents native;
    std::tie(native.rank, native.world_size) = in_native;
    RankEvents hook;
    std::tie(hook.rank, hook.world_size) = in_hook;
    merge(native, hook);
    return std::pair(native.rank, native.world_size);
  };
  EXPECT_EQ(place_of_both({0, 2}, {3, 4}), std::pair(3, 4)) << "it used a part of the job alone";
  EXPECT_EQ(place_of_both({5, 8}, {1, 4}), std::pair(5, 8));
  EXPECT_EQ(place_of_both({0, 2}, {-1, 0}), std::pair(0, 2));
}

class HookFolder : public ::testing::Test {
 protected:
  test::TemporaryFolder folder_;
};

TEST_F(HookFolder, EachFileJoinsItsProcess) {
  folder_.write("hook-42.jsonl", kStart + kRank + kForward);
  folder_.write("hook-43.jsonl", "nonsense\n");
  folder_.write("native-42.events", "of another reader");
  std::vector<RankEvents> ranks(2);
  ranks[0].pid = 41;
  ranks[1].pid = 42;
  add_hook_events(folder_.path(), ranks);
  ASSERT_THAT(ranks, SizeIs(3));
  EXPECT_THAT(ranks[0].events, IsEmpty());
  EXPECT_THAT(ranks[1].events, SizeIs(1));
  EXPECT_EQ(ranks[1].rank, 1);
  ASSERT_THAT(ranks[2].faults, SizeIs(1));
  EXPECT_THAT(ranks[2].faults[0], HasSubstr("hook-43.jsonl line 1"));
}

TEST_F(HookFolder, AFileThatCannotBeReadIsRefused) {
  EXPECT_THROW(read_hook_events(folder_.file("none")), ConfigError);
  EXPECT_THROW(read_hook_events(folder_.path()), ConfigError) << "a directory";
}

const std::string kGpuStep =
    R"({"kind":"optimizer_step","start_ns":300,"end_ns":400,"thread":7,"name":"SGD","bytes":64})"
    "\n";

TEST(HookEvents, WhatAGpuHeldGoesBeforeTheTensorsOfTheCpu) {
  const std::string end = R"({"kind":"gpu_peak","bytes":96,"reserved_bytes":128})"
                          "\n";
  RankEvents native;
  native.peak.bytes = 7;
  native.events = {event(EventKind::OptimizerStep, 310, 390)};
  native.events[0].bytes = 5;
  merge(native, parse_hook_events(kStart + kGpuStep + end, "hook-42.jsonl"));
  EXPECT_TRUE(native.peak.is_on_gpu);
  EXPECT_EQ(native.peak.bytes, Known<std::int64_t>(96));
  EXPECT_EQ(native.peak.reserved_bytes, 128);
  EXPECT_EQ(native.events[0].bytes, 64);
}

TEST(HookEvents, OfAProcessThatWasKilledTheLastStepSaysWhatItsGpuHeld) {
  const RankEvents read = parse_hook_events(kStart + kGpuStep, "hook-42.jsonl");
  EXPECT_TRUE(read.peak.is_on_gpu);
  EXPECT_EQ(read.peak.bytes, Known<std::int64_t>(64));
}

TEST(HookEvents, AGpuMayNotKnowWhatItHeld) {
  const std::string end = R"({"kind":"gpu_peak","bytes":-1,"sentence":"its tensors are on 2 GPUs"})"
                          "\n";
  const RankEvents read = parse_hook_events(kStart + kGpuStep + end, "hook-42.jsonl");
  EXPECT_TRUE(read.peak.is_on_gpu);
  EXPECT_EQ(read.peak.bytes.why_not(), "its tensors are on 2 GPUs");
}

}  // namespace
}  // namespace gradsync::watch
