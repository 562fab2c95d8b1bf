// What the recorder keeps, the reader gives back: whole files, files of killed and of forked
// processes, files that could not grow, files that were cut off.
// Covers: recorder.cpp.
#include "harness/watch/read/read_events.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <sstream>
#include <thread>

#include "harness/base/errors.h"
#include "harness/watch/inject/preload/recorder.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::watch {
namespace {

using test::TemporaryFolder;

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::ThrowsMessage;

std::string file_of(const TemporaryFolder& folder, pid_t pid) {
  return folder.path() + "/" + kEventFilePrefix + std::to_string(pid) + kEventFileSuffix;
}

std::string bytes_of(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

// Runs `body` in a child, and returns its pid and wait status once it has ended.
std::pair<pid_t, int> in_child(const std::function<void()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return {pid, status};
}

constexpr int kMoreThanAChunk = 10000;  // events

// In a child whose files may not grow beyond a chunk.
std::pair<pid_t, int> fill_one_chunk(const TemporaryFolder& folder) {
  return in_child([&] {
    const rlimit one_chunk{kChunkBytes, kChunkBytes};
    ::setrlimit(RLIMIT_FSIZE, &one_chunk);
    Recorder recorder;
    recorder.open(folder.path().c_str(), "2.11.0");
    for (int i = 0; i < kMoreThanAChunk; ++i) recorder.begin({.name = "all_reduce"});
  });
}

TEST(Recorder, TheWorkOfAnOperatorIsReadBack) {
  const TemporaryFolder folder;
  Recorder recorder;
  recorder.open(folder.path().c_str(), "2.11.0");
  const std::string long_name = "_scaled_dot_product_flash_attention_for_cpu_backward";
  recorder.add_work("mm", 0, {3, 400, 50});
  recorder.add_work(long_name, 7, {1, 8, 0});

  const RankEvents read = read_events(file_of(folder, ::getpid()));

  EXPECT_THAT(read.events, IsEmpty());
  ASSERT_THAT(read.work, SizeIs(2));
  EXPECT_EQ(read.work[0].name, "mm");
  EXPECT_EQ(read.work[0].times, 3);
  EXPECT_EQ(read.work[0].bytes, 400);
  EXPECT_EQ(read.work[0].flops, 50);
  EXPECT_GT(read.work[0].written_ns, 0);
  EXPECT_EQ(read.work[1].name, long_name);
  EXPECT_EQ(read.work[1].stack, 7);
}

TEST(Recorder, WhatItKeepsIsReadBack) {
  const TemporaryFolder folder;
  Recorder recorder;
  recorder.open(folder.path().c_str(), "2.11.0");
  recorder.set_place(1, 2);
  recorder.end(recorder.begin({.kind = EventKind::Forward, .name = "DistributedDataParallel"}));
  const auto backward = recorder.begin({.kind = EventKind::Backward, .name = "backward"});
  recorder.begin({.name = "all_reduce", .bytes = 4096, .object = 77, .detail = "default_pg"});
  recorder.count(backward, 1);
  recorder.count(backward, 1);
  recorder.end(backward);
  recorder.end(recorder.begin({.kind = EventKind::OptimizerStep, .name = "AdamW"}));

  const RankEvents read = read_events(file_of(folder, ::getpid()));

  EXPECT_EQ(read.rank, 1);
  EXPECT_EQ(read.world_size, 2);
  EXPECT_EQ(read.pid, ::getpid());
  EXPECT_THAT(read.faults, IsEmpty());
  ASSERT_THAT(read.events, SizeIs(4));
  EXPECT_EQ(read.events[0].kind, EventKind::Forward);
  EXPECT_EQ(read.events[0].name, "DistributedDataParallel");
  EXPECT_EQ(read.events[1].kind, EventKind::Backward);
  EXPECT_EQ(read.events[1].detail, "2");
  const Event& collective = read.events[2];
  EXPECT_EQ(collective.kind, EventKind::Collective);
  EXPECT_EQ(collective.name, "all_reduce");
  EXPECT_EQ(collective.bytes, 4096);
  EXPECT_EQ(collective.object, 77);
  EXPECT_EQ(collective.detail, "default_pg");
  EXPECT_EQ(collective.thread, ::gettid());
  EXPECT_EQ(collective.end_ns, collective.start_ns) << "it was never complete";
  EXPECT_EQ(read.events[3].kind, EventKind::OptimizerStep);
  EXPECT_GT(read.events[1].end_ns, collective.start_ns) << "they overlap";
  EXPECT_LE(read.events[1].end_ns, read.events[3].start_ns);
}

TEST(Recorder, WhatTensorsHoldIsThereTheMomentItIsTold) {
  const TemporaryFolder folder;
  Recorder recorder;
  recorder.set_tensor_count(TensorCount::Counted);
  recorder.set_tensor_peak(100);
  recorder.open(folder.path().c_str(), "2.11.0");
  const auto first = recorder.begin({.kind = EventKind::OptimizerStep, .name = "SGD"});
  recorder.mark_tensor_peak(first);
  recorder.set_tensor_peak(150);
  const RankEvents read = read_events(file_of(folder, ::getpid()));
  EXPECT_EQ(read.peak.bytes, Known<std::int64_t>(150)) << "also of a process that is killed now";
  EXPECT_EQ(read.events.at(0).bytes, 100) << "until that step ended";
}

TEST(Recorder, WhatTensorsHoldIsNotKnownWhereNotAllAreCounted) {
  const TemporaryFolder folder;
  Recorder recorder;
  recorder.open(folder.path().c_str(), "2.11.0");
  recorder.set_tensor_peak(100);
  const auto why_not = [&] {
    return read_events(file_of(folder, ::getpid())).peak.bytes.why_not();
  };
  EXPECT_EQ(why_not(), kNotCounted) << "as in files of before it was there";
  recorder.set_tensor_count(TensorCount::OtherAllocator);
  EXPECT_THAT(why_not(), HasSubstr("allocator of its own"));
  recorder.set_tensor_count(TensorCount::OtherThread);
  EXPECT_THAT(why_not(), HasSubstr("another thread"));
  const auto step = recorder.begin({.kind = EventKind::OptimizerStep, .name = "SGD"});
  recorder.mark_tensor_peak(step);
  EXPECT_EQ(read_events(file_of(folder, ::getpid())).events.at(0).bytes, -1);
}

TEST(Recorder, OpenedAgainItKeepsWhatComesThenAndNothingBetween) {
  const TemporaryFolder first;
  const TemporaryFolder second;
  Recorder recorder;
  recorder.open(first.path().c_str(), "2.11.0");
  const auto early = recorder.begin({.name = "all_reduce"});
  recorder.close();
  recorder.end(early);
  recorder.end(recorder.begin({.name = "broadcast"}));
  recorder.set_place(1, 2);
  recorder.open(second.path().c_str(), "2.11.0");
  recorder.end(recorder.begin({.name = "all_gather"}));
  recorder.end(early);

  const RankEvents before = read_events(file_of(first, ::getpid()));
  ASSERT_THAT(before.events, SizeIs(1));
  EXPECT_EQ(before.events[0].end_ns, before.events[0].start_ns) << "closed before it ended";
  EXPECT_EQ(before.rank, -1);
  const RankEvents after = read_events(file_of(second, ::getpid()));
  ASSERT_THAT(after.events, SizeIs(1));
  EXPECT_EQ(after.events[0].name, "all_gather");
  EXPECT_THAT(after.faults, IsEmpty());
}

TEST(Recorder, ALaterEndCountsAndAnEarlierDoesNot) {
  const TemporaryFolder folder;
  Recorder recorder;
  recorder.open(folder.path().c_str(), "2.11.0");
  const auto first = recorder.begin({.name = "all_reduce"});
  recorder.end(first);
  const std::int64_t once = read_events(file_of(folder, ::getpid())).events.at(0).end_ns;
  recorder.end(first);
  EXPECT_GT(read_events(file_of(folder, ::getpid())).events.at(0).end_ns, once);
}

TEST(Recorder, WhenACallReturnedIsKept) {
  const TemporaryFolder folder;
  Recorder recorder;
  recorder.open(folder.path().c_str(), "2.11.0");
  recorder.issued(recorder.begin({.name = "all_reduce"}));
  recorder.begin({.name = "broadcast"});
  const RankEvents read = read_events(file_of(folder, ::getpid()));
  ASSERT_THAT(read.events, SizeIs(2));
  EXPECT_GT(read.events[0].issued_ns, read.events[0].start_ns);
  EXPECT_LE(read.events[0].issued_ns, read.events[1].start_ns + 1) << "1: the least it may take";
  EXPECT_EQ(read.events[0].end_ns, read.events[0].start_ns) << "it was never complete";
  EXPECT_EQ(read.events[1].issued_ns, 0);
}

TEST(Recorder, TheLargestGroupIsTheProcesssPlace) {
  const TemporaryFolder folder;
  Recorder recorder;
  recorder.open(folder.path().c_str(), "2.11.0");
  recorder.set_place(0, 1);
  recorder.set_place(3, 4);
  recorder.set_place(1, 2);
  const RankEvents read = read_events(file_of(folder, ::getpid()));
  EXPECT_EQ(read.rank, 3);
  EXPECT_EQ(read.world_size, 4);
}

// Every data loader imports torch.
TEST(Recorder, AProcessWithoutEventsTakesHardlyAnyRoom) {
  const TemporaryFolder folder;
  Recorder recorder;
  recorder.open(folder.path().c_str(), "2.11.0");
  recorder.set_place(0, 2);
  EXPECT_EQ(std::filesystem::file_size(file_of(folder, ::getpid())), kHeaderBytes);
  recorder.begin({.name = "all_reduce"});
  EXPECT_EQ(std::filesystem::file_size(file_of(folder, ::getpid())), kChunkBytes);
  EXPECT_EQ(read_events(file_of(folder, ::getpid())).world_size, 2);
}

TEST(Recorder, LongNamesAreCutAndOddOnesMadeReadable) {
  const TemporaryFolder folder;
  Recorder recorder;
  recorder.open(folder.path().c_str(), "2.11.0");
  recorder.begin({.name = std::string(100, 'x'), .detail = "a\nb\x1b[31m"});
  const Event event = read_events(file_of(folder, ::getpid())).events.at(0);
  EXPECT_EQ(event.name, std::string(39, 'x'));
  EXPECT_EQ(event.detail, "a?b?[31m");
}

// More than one chunk of the file holds, and from several threads at once.
TEST(Recorder, KeepsAllEventsOfAllThreads) {
  constexpr int kThreads = 4;
  constexpr int kEach = 5000;
  const TemporaryFolder folder;
  Recorder recorder;
  recorder.open(folder.path().c_str(), "2.11.0");
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&recorder] {
      for (int i = 0; i < kEach; ++i) recorder.end(recorder.begin({.name = "send", .bytes = i}));
    });
  }
  for (std::thread& thread : threads) thread.join();

  const RankEvents read = read_events(file_of(folder, ::getpid()));
  ASSERT_THAT(read.events, SizeIs(kThreads * kEach));
  EXPECT_THAT(read.faults, IsEmpty());
  std::int64_t sum = 0;
  for (const Event& event : read.events) sum += event.bytes;
  EXPECT_EQ(sum, std::int64_t{kThreads} * kEach * (kEach - 1) / 2);
  EXPECT_TRUE(
      std::is_sorted(read.events.begin(), read.events.end(),
                     [](const Event& a, const Event& b) { return a.start_ns < b.start_ns; }));
}

TEST(Recorder, AKilledProcessLosesNothing) {
  const TemporaryFolder folder;
  const auto [pid, status] = in_child([&] {
    Recorder recorder;
    recorder.open(folder.path().c_str(), "2.11.0");
    for (int i = 0; i < 100; ++i) recorder.begin({.name = "all_reduce", .bytes = i});
    ::raise(SIGKILL);
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  const RankEvents read = read_events(file_of(folder, pid));
  EXPECT_THAT(read.events, SizeIs(100));
  EXPECT_THAT(read.faults, IsEmpty());
}

TEST(Recorder, AForkedProcessHasAFileOfItsOwn) {
  const TemporaryFolder folder;
  Recorder recorder;
  recorder.open(folder.path().c_str(), "2.11.0");
  const auto of_parent = recorder.begin({.name = "broadcast"});
  const auto [pid, status] = in_child([&] {
    recorder.after_fork();
    recorder.end(of_parent);  // not the child's to end
    recorder.begin({.name = "all_reduce"});
  });
  ASSERT_EQ(status, 0);
  const RankEvents parent = read_events(file_of(folder, ::getpid()));
  EXPECT_THAT(parent.events, ElementsAre(Field(&Event::name, "broadcast")));
  EXPECT_EQ(parent.events[0].end_ns, parent.events[0].start_ns);
  const RankEvents child = read_events(file_of(folder, pid));
  EXPECT_THAT(child.events, ElementsAre(Field(&Event::name, "all_reduce")));
  EXPECT_EQ(child.pid, pid);
  EXPECT_EQ(child.events[0].thread, pid) << "calls of NCCL find theirs by it";
}

TEST(Recorder, AForkedProcessWithoutEventsLeavesNoFile) {
  const TemporaryFolder folder;
  Recorder recorder;
  recorder.open(folder.path().c_str(), "2.11.0");
  const auto [pid, status] = in_child([&] { recorder.after_fork(); });
  ASSERT_EQ(status, 0);
  EXPECT_FALSE(std::filesystem::exists(file_of(folder, pid)));
}

// The process goes on, and the file says what it lacks.
TEST(Recorder, AFileThatMayNotGrowIsToldOf) {
  const TemporaryFolder folder;
  const auto [pid, status] = fill_one_chunk(folder);
  ASSERT_EQ(status, 0) << "it must not be ended by a signal";
  const RankEvents read = read_events(file_of(folder, pid));
  const std::size_t room = (kChunkBytes - kHeaderBytes) / sizeof(EventRecord);
  EXPECT_THAT(read.events, SizeIs(room));
  EXPECT_THAT(read.faults, ElementsAre("the file of events cannot grow: File too large",
                                       std::to_string(kMoreThanAChunk - room) +
                                           " of 10000 events are not in its file"));
}

TEST(Recorder, WithoutAFolderNothingHappens) {
  Recorder recorder;
  recorder.open("/nonexistent/folder", "2.11.0");
  recorder.end(recorder.begin({.name = "all_reduce"}));
  recorder.set_place(0, 2);
  recorder.fault("nobody hears it");
  recorder.count_optimizer_step();
}

TEST(Recorder, KeepsTheFirstFault) {
  const TemporaryFolder folder;
  Recorder recorder;
  recorder.open(folder.path().c_str(), "2.11.0");
  recorder.fault("the first");
  recorder.fault("the second");
  EXPECT_THAT(read_events(file_of(folder, ::getpid())).faults, ElementsAre("the first"));
}

TEST(ReadEvents, AFileThatIsCutOffGivesWhatIsWhole) {
  const TemporaryFolder folder;
  Recorder recorder;
  recorder.open(folder.path().c_str(), "2.11.0");
  for (int i = 0; i < 3; ++i) recorder.begin({.name = "all_reduce", .bytes = i});
  const std::string bytes = bytes_of(file_of(folder, ::getpid()));
  const std::string cut =
      folder.write("cut", bytes.substr(0, kHeaderBytes + 2 * sizeof(EventRecord) + 50));
  const RankEvents read = read_events(cut);
  EXPECT_THAT(read.events, SizeIs(2));
  EXPECT_THAT(read.faults, ElementsAre("1 of 3 events are not in its file"));
}

TEST(ReadEvents, AFileWithoutItsHeaderIsAFault) {
  const TemporaryFolder folder;
  for (const std::string& text : {std::string(), std::string("GSWAT"), std::string(100, '\0')}) {
    const std::string path = folder.write("short", text);
    EXPECT_THAT(read_events(path).faults, ElementsAre(path + " ends before its first event"));
  }
}

TEST(ReadEvents, ForeignFilesAreRefused) {
  const TemporaryFolder folder;
  const std::string path = folder.write("foreign", "GSWATCH9" + std::string(2000, 'x'));
  EXPECT_THAT(
      [&] { read_events(path); },
      ThrowsMessage<ConfigError>(path + ": field 'magic': got other bytes, expected GSWATCH1"));
  EXPECT_THAT([&] { read_events(folder.path() + "/absent"); },
              ThrowsMessage<ConfigError>(HasSubstr("cannot be read")));
}

TEST(ReadEvents, AnEventThatCannotBeIsRefused) {
  const TemporaryFolder folder;
  Recorder recorder;
  recorder.open(folder.path().c_str(), "2.11.0");
  recorder.begin({.name = "all_reduce"});
  std::string bytes = bytes_of(file_of(folder, ::getpid()));
  bytes[kHeaderBytes + offsetof(EventRecord, kind)] = 9;
  const std::string path = folder.write("damaged", bytes);
  EXPECT_THAT(
      [&] { read_events(path); },
      ThrowsMessage<ConfigError>(path + ": field 'events[0].kind': got 9, expected 0 to 3"));
}

TEST(ReadFolder, SaysWhatThePreloadedLibraryLeft) {
  const TemporaryFolder folder;
  EXPECT_FALSE(read_folder(folder.path()).reached);
  folder.write("reached", "");
  folder.write("loader-12.fault", "it uses another torch\n");
  Recorder of_launcher;  // it has torch, and does nothing with it
  of_launcher.open(folder.path().c_str(), "2.11.0");
  const auto [rank_0, ignored] = in_child([&] {
    Recorder recorder;
    recorder.open(folder.path().c_str(), "2.11.0");
    recorder.set_place(0, 2);
    recorder.count_optimizer_step();
    recorder.begin({.kind = EventKind::OptimizerStep, .name = "SGD"});
  });
  const WatchedFolder read = read_folder(folder.path());
  EXPECT_TRUE(read.reached);
  EXPECT_EQ(read.torch_processes, 2);
  EXPECT_THAT(read.faults, ElementsAre("it uses another torch"));
  EXPECT_THAT(read.ranks,
              ElementsAre(AllOf(Field(&RankEvents::rank, 0), Field(&RankEvents::pid, rank_0))));
  EXPECT_EQ(optimizer_steps_so_far(folder.path()), 1);
  EXPECT_EQ(read.ranks.front().gpus_of_paper, "");
  folder.write("on_paper", "8xh100\n8xh100\n");  // each of its processes leaves a line
  EXPECT_EQ(read_folder(folder.path()).ranks.front().gpus_of_paper, "8xh100");
  folder.write("loader-13.fault", "");  // about to be written
  EXPECT_THAT(faults_so_far(folder.path()), ElementsAre("it uses another torch"));
}

std::string hook_file(pid_t pid, const std::string& lines) {
  return R"({"kind":"start","schema":"gradsync.watch_hook/1","pid":)" + std::to_string(pid) +
         R"(,"python":"3.11.2"})" + "\n" + lines;
}

constexpr const char* kWrapAtFirst = R"({"kind":"wrap","start_ns":1})"
                                     "\n";

// Forwards whose collectives were not recorded would look as if they never synchronized.
TEST(ReadFolder, WhatIsBehindTheEndOfAFullFileIsLeftOut) {
  const TemporaryFolder folder;
  const auto [pid, status] = fill_one_chunk(folder);
  ASSERT_EQ(status, 0);
  const std::string late = R"({"kind":"forward","start_ns":9000000000000000000})"
                           "\n";
  folder.write("hook-" + std::to_string(pid) + ".jsonl", hook_file(pid, kWrapAtFirst + late));
  const WatchedFolder read = read_folder(folder.path());
  ASSERT_THAT(read.ranks, SizeIs(1));
  EXPECT_EQ(read.ranks[0].events.front().kind, EventKind::Wrap);
  EXPECT_EQ(read.ranks[0].events.back().kind, EventKind::Collective);
}

TEST(ReadFolder, WhatIsBehindTheEndOfTheHooksFullFileIsLeftOut) {
  const TemporaryFolder folder;
  const auto [pid, status] = in_child([&] {
    Recorder recorder;
    recorder.open(folder.path().c_str(), "2.11.0");
    recorder.begin({.name = "all_reduce"});
  });
  ASSERT_EQ(status, 0);
  const std::string full = R"({"kind":"full","sentence":"the hook stopped"})"
                           "\n";
  folder.write("hook-" + std::to_string(pid) + ".jsonl", hook_file(pid, kWrapAtFirst + full));
  const WatchedFolder read = read_folder(folder.path());
  ASSERT_THAT(read.ranks, SizeIs(1));
  EXPECT_THAT(read.ranks[0].events, ElementsAre(Field(&Event::kind, EventKind::Wrap)));
  EXPECT_THAT(read.ranks[0].faults, ElementsAre("the hook stopped"));
}

// What preload/watcher.cpp and preload/nccl.cpp record of one process.
TEST(ReadFolder, CallsOfNcclBelongToTheOperationThatMadeThem) {
  const TemporaryFolder folder;
  Recorder c10d;
  c10d.open(folder.path().c_str(), "2.11.0");
  Recorder nccl;
  nccl.open(folder.path().c_str(), "", kNcclFilePrefix);
  const auto operation = c10d.begin({.name = "all_reduce", .bytes = 12, .detail = "default_pg"});
  nccl.begin({.name = "all_reduce", .bytes = 4, .detail = kNcclCall});
  nccl.begin({.name = "all_reduce", .bytes = 8, .detail = kNcclCall});
  c10d.issued(operation);
  nccl.begin({.name = "send", .bytes = 16, .detail = kNcclCall});
  const WatchedFolder read = read_folder(folder.path());
  EXPECT_EQ(read.torch_processes, 1);
  ASSERT_THAT(read.ranks, SizeIs(1));
  EXPECT_THAT(read.ranks[0].events,
              ElementsAre(Field(&Event::detail, "default_pg"), Field(&Event::name, "send")));
  EXPECT_THAT(read.ranks[0].faults, ElementsAre(HasSubstr("NCCL was called for 1 send")));
}

TEST(ReadFolder, AProcessThatOnlyTheHookSawIsNotTakenForOneThatNeverSynchronizes) {
  const TemporaryFolder folder;
  const std::string step = R"({"kind":"optimizer_step","start_ns":5,"end_ns":9,"name":"SGD"})"
                           "\n";
  folder.write("hook-4711.jsonl", hook_file(4711, step));
  const WatchedFolder read = read_folder(folder.path());
  EXPECT_THAT(read.ranks, IsEmpty());
  EXPECT_THAT(read.faults, ElementsAre("process 4711: the preloaded library did not reach it, its "
                                       "collectives are not known"));
}

}  // namespace
}  // namespace gradsync::watch
