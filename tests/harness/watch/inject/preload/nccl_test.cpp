// A program that calls NCCL, under the preloaded library: every call is seen with its bytes, and
// nothing of what NCCL is given, prints or returns is another than without.
// Covers: cuda_graphs.cpp, nccl_calls.cpp, next_definition.cpp.
#include <gmock/gmock.h>

#include <optional>

#include "harness/launch/program_output.h"
#include "harness/watch/inject/preload/event_file.h"
#include "harness/watch/inject/preload_library.h"
#include "harness/watch/judge/watched.h"
#include "harness/watch/read/read_events.h"
#include "tests/models/temporary_folder.h"
#include "tests/paths.h"

namespace gradsync::watch {
namespace {

using test::TemporaryFolder;

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

using Words = std::vector<std::string>;

constexpr double kEndS = 120;
const std::string kHost = test::path_of("nccl_host");
const std::string kStub = test::path_of("nccl_stub");
const std::string kStubOfRocm = test::path_of("rccl_stub");
const std::string kJob = test::path_of("nccl_job");
const std::string kJobOther = test::path_of("nccl_job_other");
const std::string kJobAlone = test::path_of("nccl_job_alone");

class NcclTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    build_.emplace();
    loader_ = compile_loader(test::path_of("source"), build_->path());
  }
  static void TearDownTestSuite() { build_.reset(); }

  // Runs `job` of the libraries, watched, and expects all that it prints to be what it prints
  // alone. Returns that.
  std::string watch(const std::string& scope, const std::string& job, const Words& libraries,
                    const std::string& more = "STUB=") {
    const launch::ProgramOutput alone = run({more}, scope, job, libraries);
    const launch::ProgramOutput watched =
        run({more, preload(), watch_dir()}, scope, job, libraries);
    EXPECT_EQ(alone.status, 0) << alone.text;
    EXPECT_EQ(watched.status, 0) << watched.text;
    EXPECT_EQ(watched.text, alone.text);
    return watched.text;
  }

  launch::ProgramOutput run(const Words& environment, const std::string& scope,
                            const std::string& job, const Words& libraries) const {
    Words command{"env"};
    command.insert(command.end(), environment.begin(), environment.end());
    command.insert(command.end(), {kHost, scope, job});
    command.insert(command.end(), libraries.begin(), libraries.end());
    return launch::output_of(command, kEndS);
  }

  static std::string preload() { return "LD_PRELOAD=" + loader_; }
  std::string watch_dir() const { return "GRADSYNC_WATCH_DIR=" + folder_.path(); }

  // Returns the events of the only process that left events or faults.
  RankEvents seen() const {
    const WatchedFolder folder = read_folder(folder_.path());
    EXPECT_TRUE(folder.reached);
    EXPECT_THAT(folder.ranks, SizeIs(1));
    return folder.ranks.empty() ? RankEvents{} : folder.ranks[0];
  }

  TemporaryFolder folder_;
  static inline std::optional<TemporaryFolder> build_;
  static inline std::string loader_;
};

// "all_reduce 400 NCCL"
Words texts_of(const RankEvents& process) {
  Words texts;
  for (const Event& event : process.events) {
    texts.push_back(event.name + " " + std::to_string(event.bytes) + " " + event.detail);
  }
  return texts;
}

TEST_F(NcclTest, EveryCallIsSeenAndNoneIsChanged) {
  for (const char* scope : {"local", "global"}) {
    EXPECT_THAT(watch(scope, "each", {kJob}), HasSubstr("nccl ncclAllReduce 0x10"));
  }
  const WatchedFolder folder = read_folder(folder_.path());
  ASSERT_THAT(folder.ranks, SizeIs(2)) << "a process each";
  for (const RankEvents& process : folder.ranks) {
    EXPECT_THAT(texts_of(process),
                ElementsAre("all_reduce 400 NCCL", "broadcast 10 NCCL",
                            "broadcast 24 NCCL",  // once, though NCCL calls itself
                            "reduce 20 NCCL", "all_gather 160 NCCL", "reduce_scatter 20 NCCL",
                            "send 7 NCCL", "recv 9 NCCL", "all_to_all 32 NCCL", "gather 8 NCCL",
                            "scatter 2 NCCL", "all_reduce -1 NCCL", "all_gather -1 NCCL"));
    EXPECT_THAT(process.faults, IsEmpty());
    EXPECT_EQ(process.rank, 1);
    EXPECT_EQ(process.world_size, 4);
    const std::vector<Event>& events = process.events;
    EXPECT_EQ(events[0].thread, process.pid);
    EXPECT_EQ(events[0].object, events[1].object);
    EXPECT_NE(events[0].object, events[2].object) << "another communicator";
    EXPECT_NE(events[0].object, 0);
  }
}

TEST_F(NcclTest, ErrorsAreNccls) {
  EXPECT_THAT(watch("local", "each", {kJob}, "STUB_RESULT=5"), HasSubstr("-> 5\n"));
  EXPECT_THAT(seen().events, SizeIs(13)) << "a call is one, whatever becomes of it";
}

TEST_F(NcclTest, WhereNobodyWatchesCallsPassThrough) {
  const launch::ProgramOutput alone = run({}, "local", "graphs", {kJob});
  const launch::ProgramOutput preloaded = run({preload()}, "local", "graphs", {kJob});
  EXPECT_EQ(preloaded.status, 0);
  EXPECT_EQ(preloaded.text, alone.text);
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(NcclTest, EachCallerKeepsItsNccl) {
  const std::string text = watch("local", "each", {kJob, kJobOther});
  EXPECT_THAT(text, AllOf(HasSubstr("nccl ncclAllReduce"), HasSubstr("other ncclAllReduce")));
  EXPECT_THAT(seen().events, SizeIs(26));
}

// All see the first one's; the other's callers were linked with another version of the symbols.
TEST_F(NcclTest, EachCallerKeepsItsVersionOfCuda) {
  const std::string text = watch("global", "graphs", {kJob, kJobOther});
  EXPECT_THAT(
      text, AllOf(HasSubstr("cudart 13 cudaGraphLaunch"), HasSubstr("cudart 12 cudaGraphLaunch")));
}

TEST_F(NcclTest, ACallerThatDoesNotNameItsNcclGetsTheOneThatIsLoaded) {
  const launch::ProgramOutput watched =
      run({preload(), watch_dir()}, "local", "child", {kStub, kJobAlone});
  EXPECT_EQ(watched.status, 0);
  EXPECT_THAT(watched.text, HasSubstr("nccl ncclAllReduce"));
}

TEST_F(NcclTest, RocmsLibraryIsOneToo) {
  const launch::ProgramOutput watched =
      run({preload(), watch_dir()}, "local", "child", {kStubOfRocm, kJobAlone});
  EXPECT_EQ(watched.status, 0);
  EXPECT_THAT(watched.text, HasSubstr("rccl ncclAllReduce"));
}

TEST_F(NcclTest, WithoutNcclTheCallFailsAndIsTold) {
  EXPECT_EQ(run({}, "local", "child", {kJobAlone}).status, 127);
  const launch::ProgramOutput watched =
      run({preload(), watch_dir()}, "local", "child", {kJobAlone});
  EXPECT_EQ(watched.status, 0);
  EXPECT_EQ(watched.text, "-> 2\n-> 2");
  const WatchedFolder folder = read_folder(folder_.path());
  ASSERT_THAT(folder.ranks, SizeIs(2)) << "the process and its child";
  for (const RankEvents& process : folder.ranks) {
    EXPECT_THAT(process.events, IsEmpty());
    EXPECT_THAT(process.faults,
                ElementsAre("ncclAllReduce was called, but no library that is loaded has it"));
  }
}

TEST_F(NcclTest, AProcessThatIsSeveralRanksIsStillOneProcess) {
  watch("local", "several ranks", {kJob});
  EXPECT_THAT(texts_of(seen()),
              ElementsAre("all_reduce 6 NCCL", "all_reduce 6 NCCL", "all_reduce 6 NCCL"));
  const Watched watched = summarize({seen()});
  EXPECT_EQ(watched.verdicts[0].kind, VerdictKind::OneProcess);
  EXPECT_THAT(watched.faults, IsEmpty());
}

TEST_F(NcclTest, AForkedProcessHasAFileOfItsOwn) {
  watch("local", "child", {kJob});
  const WatchedFolder folder = read_folder(folder_.path());
  ASSERT_THAT(folder.ranks, SizeIs(2));
  const RankEvents& parent =
      folder.ranks[0].pid < folder.ranks[1].pid ? folder.ranks[0] : folder.ranks[1];
  const RankEvents& child = &parent == &folder.ranks[0] ? folder.ranks[1] : folder.ranks[0];
  EXPECT_THAT(texts_of(parent), ElementsAre("all_reduce 4 NCCL"));
  EXPECT_THAT(texts_of(child), ElementsAre("all_reduce 8 NCCL"));
}

// The versions of the stub's symbols are the real ones: ours stand before them without.
TEST_F(NcclTest, LaunchesOfAGraphRunWhatWasCaptured) {
  const std::string text = watch("local", "graphs", {kJob});
  EXPECT_THAT(text, Not(HasSubstr("of the legacy stream")));
  Words expected{"all_reduce 40 NCCL captured", "all_reduce 4000 NCCL", "all_reduce 8000 NCCL",
                 "all_reduce 44 NCCL captured"};
  for (int launch = 0; launch < 4; ++launch) {
    expected.insert(expected.end(), {"all_reduce 40 NCCL replayed", "all_reduce 44 NCCL replayed"});
  }
  expected.push_back("all_reduce 4 NCCL");
  EXPECT_EQ(texts_of(seen()), expected);
  EXPECT_THAT(seen().faults, IsEmpty());
  const OpSum ran = summarize({seen()}).ranks[0].collectives.at("all_reduce");
  EXPECT_EQ(ran, (OpSum{3 + 4 * 2, 4000 + 8000 + 4 * (40 + 44) + 4}))
      << "the capture itself is none";
}

TEST_F(NcclTest, ACaptureThatFailedIsNeverReplayed) {
  watch("local", "graphs", {kJob}, "STUB_RESULT=1");
  for (const std::string& text : texts_of(seen())) EXPECT_THAT(text, Not(HasSubstr("replayed")));
}

TEST_F(NcclTest, AJobThatAsksNcclItselfIsNotRecognisedButCounted) {
  watch("local", "each", {kJob});
  const Watched watched = summarize({seen()});
  ASSERT_THAT(watched.verdicts, SizeIs(1));
  EXPECT_EQ(watched.verdicts[0].cause, Cause::NcclWithoutSteps);
  EXPECT_THAT(watched.verdicts[0].why,
              AllOf(HasSubstr("2 broadcast (34 B)"), HasSubstr("2 all_reduce (of unknown size)")));
  EXPECT_EQ(watched.ranks[0].collectives.at("all_to_all"), (OpSum{1, 32}));
}

// Shells and compilers of a job carry it as well.
TEST_F(NcclTest, TheLibraryNeedsTheCLibraryAlone) {
  const launch::ProgramOutput dynamic = launch::output_of({"readelf", "-d", loader_}, kEndS);
  ASSERT_EQ(dynamic.status, 0) << dynamic.text;
  EXPECT_THAT(dynamic.text,
              AllOf(HasSubstr("[libc.so"), Not(HasSubstr("libstdc++")), Not(HasSubstr("libgcc"))));
}

}  // namespace
}  // namespace gradsync::watch
