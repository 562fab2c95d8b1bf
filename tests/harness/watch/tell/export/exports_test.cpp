// What is written while a job runs and when it has ended. export_test.py reads it with others'
// parsers.
// Covers: prometheus.cpp, step_file.cpp, step_lines.cpp.
#include "harness/watch/tell/export/exports.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "harness/base/errors.h"
#include "harness/base/whole_file.h"
#include "tests/harness/watch/sample_jobs.h"

namespace gradsync::watch {
namespace {

namespace fs = std::filesystem;
using gradsync::test::MadeJob;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

std::vector<RankEvents> improper() {
  return {gradsync::test::improper_job(0).process(), gradsync::test::improper_job(1).process()};
}

// The job as it was when its first `steps` optimizer steps had ended, and another had begun.
std::vector<RankEvents> so_far(int steps) {
  std::vector<RankEvents> processes = improper();
  for (RankEvents& process : processes) {
    int ended = 0;
    bool has_begun = false;
    std::erase_if(process.events, [&](const Event& event) {
      if (ended == steps) {
        return event.kind != EventKind::Forward || std::exchange(has_begun, true);
      }
      ended += event.kind == EventKind::OptimizerStep ? 1 : 0;
      return false;
    });
  }
  return processes;
}

std::vector<json> lines_of(const std::string& path) {
  std::istringstream text(whole_file(path));
  std::vector<json> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
  return lines;
}

class ExportsTest : public ::testing::Test {
 protected:
  ExportsTest() : folder_(::testing::TempDir() + "gradsync_exports_" + std::to_string(::getpid())) {
    fs::create_directories(folder_);
  }
  ~ExportsTest() override { fs::remove_all(folder_); }

  std::string in_folder(const std::string& name) const { return (folder_ / name).string(); }

  // What is said against these options; "" where nothing is.
  static std::string complaint_about(const ExportOptions& options) {
    try {
      Exports exports(options);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }

  fs::path folder_;
  FakeClock clock_;
};

TEST_F(ExportsTest, PrometheusHearsOfTheJobFromBeforeItsStartToItsEnd) {
  const std::string file = in_folder("job.prom");
  Exports exports({file, "train.py", "", ""}, clock_);
  EXPECT_THAT(whole_file(file), HasSubstr("gradsync_job_running{job=\"train.py\"} 1\n"));
  EXPECT_THAT(whole_file(file), Not(HasSubstr("gradsync_steps_total")));
  exports.update(improper);
  EXPECT_THAT(whole_file(file), HasSubstr("gradsync_steps_total{job=\"train.py\",rank=\"1\"} 5\n"));
  exports.finish(improper());
  const std::string last = whole_file(file);
  EXPECT_THAT(last, HasSubstr("gradsync_job_running{job=\"train.py\"} 0\n"));
  EXPECT_THAT(last, HasSubstr("gradsync_steps_total{job=\"train.py\",rank=\"1\"} 6\n"));
  EXPECT_THAT(last, HasSubstr("gradsync_step_excess_bytes{job=\"train.py\"} 6000\n"));
}

TEST_F(ExportsTest, AJobThatCouldNotBeWatchedHasEndedAllTheSame) {
  const std::string file = in_folder("job.prom");
  Exports exports({file, "job", "", ""}, clock_);
  exports.finish({});
  EXPECT_THAT(whole_file(file), HasSubstr("gradsync_job_running{job=\"job\"} 0\n"));
}

TEST_F(ExportsTest, EachStepIsToldOnce) {
  const std::string file = in_folder("steps.jsonl");
  Exports exports({"", "", "", file}, clock_);
  for (const int steps : {0, 2, 2, 4}) {
    exports.update([&] { return so_far(steps); });
    EXPECT_THAT(lines_of(file), SizeIs(steps));
  }
  exports.finish(improper());
  const std::vector<json> lines = lines_of(file);
  ASSERT_THAT(lines, SizeIs(6));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i]["steps"], i + 1);
    EXPECT_EQ(lines[i]["excess_bytes"], 6000);
    EXPECT_EQ(lines[i]["collectives"]["all_reduce"]["count"], 8);
  }
}

TEST_F(ExportsTest, AJobThatIsStartedAgainBeginsAnew) {
  const std::string file = in_folder("steps.jsonl");
  Exports exports({"", "", "", file}, clock_);
  exports.finish(so_far(2));
  std::vector<RankEvents> again = improper();
  again[0].pid = 4711;
  exports.finish(again);
  const std::vector<json> lines = lines_of(file);
  ASSERT_THAT(lines, SizeIs(2 + 6));
  EXPECT_EQ(lines[2]["steps"], 1);
  EXPECT_EQ(lines[2]["pid"], 4711);
}

TEST_F(ExportsTest, WhatAFileHadStays) {
  const std::string file = in_folder("steps.jsonl");
  std::ofstream(file) << "{}\n";
  Exports({"", "", "", file}, clock_).finish(improper());
  EXPECT_THAT(whole_file(file), StartsWith("{}\n{\"collectives\""));
}

TEST_F(ExportsTest, AreDueEveryFewSecondsAndLessOftenWhereReadingIsSlow) {
  Exports exports({in_folder("job.prom"), "job", "", ""}, clock_);
  EXPECT_TRUE(exports.are_due());
  exports.update(improper);
  clock_.advance_ns(2'900'000'000);
  EXPECT_FALSE(exports.are_due());
  clock_.advance_ns(200'000'000);
  EXPECT_TRUE(exports.are_due());
  exports.update([&] {
    clock_.advance_ns(1'000'000'000);
    return improper();
  });
  clock_.advance_ns(49'000'000'000);
  EXPECT_FALSE(exports.are_due()) << "reading takes a second";
  clock_.advance_ns(2'000'000'000);
  EXPECT_TRUE(exports.are_due());
  EXPECT_FALSE(Exports({}, clock_).are_due()) << "nothing is wanted";
}

TEST_F(ExportsTest, WhatCannotBeReadIsNotTriedAgainAtOnce) {
  Exports exports({in_folder("job.prom"), "job", "", ""}, clock_);
  EXPECT_THROW(exports.update([]() -> std::vector<RankEvents> { throw ConfigError("torn"); }),
               ConfigError);
  EXPECT_FALSE(exports.are_due());
}

TEST_F(ExportsTest, WhatCannotBeWrittenIsToldBeforeTheJobStarts) {
  EXPECT_THAT(complaint_about({in_folder("none/job.prom"), "job", "", ""}),
              StartsWith("--prometheus: " + in_folder("none/job.prom") + ": cannot be written"));
  EXPECT_THAT(complaint_about({"", "", "", in_folder("none/steps")}),
              StartsWith("--steps-json: " + in_folder("none/steps") + ": cannot be opened"));
  EXPECT_THAT(complaint_about({"", "", "", folder_.string()}), HasSubstr("no regular file"));
  EXPECT_THAT(complaint_about({"", "", "", "-"}), HasSubstr("standard output is the job's"));
  std::ofstream(in_folder("file")) << "";
  EXPECT_THAT(complaint_about({"", "", in_folder("file"), ""}),
              StartsWith("--tensorboard: " + in_folder("file")));
  EXPECT_EQ(complaint_about({}), "");
}

TEST_F(ExportsTest, OneThatCannotBeWrittenAnyMoreKeepsNoOtherFromIt) {
  const std::string gone = in_folder("gone/job.prom");
  fs::create_directories(in_folder("gone"));
  Exports exports({gone, "job", "", in_folder("steps.jsonl")}, clock_);
  fs::remove_all(in_folder("gone"));
  EXPECT_THROW(exports.finish(improper()), ResultsError);
  EXPECT_THAT(lines_of(in_folder("steps.jsonl")), SizeIs(6));
}

TEST(PrometheusText, ValuesOfLabelsAreEscaped) {
  const std::string text = prometheus_text(summarize({}), "a \"b\"\\\n\xff", true);
  EXPECT_THAT(text, HasSubstr("{job=\"a \\\"b\\\"\\\\\\n\xEF\xBF\xBD\"} 1\n"));
}

TEST(PrometheusText, WhatIsNotKnownHasNoLine) {
  const std::string text =
      prometheus_text(summarize(gradsync::test::job_without_times()), "job", true);
  EXPECT_THAT(text, HasSubstr("gradsync_collectives_total"));
  for (const char* name : {"exposed", "_ratio", "excess_bytes", "latest"}) {
    EXPECT_THAT(text, Not(HasSubstr(name)));
  }
}

TEST(PrometheusText, AProcessWithoutAGroupHasNoRank) {
  const MadeJob alone = MadeJob(-1, 0).times(6, [](MadeJob& job) { job.backward().optimizer(); });
  EXPECT_THAT(prometheus_text(summarize({alone.process()}), "job", true),
              HasSubstr("gradsync_steps_total{job=\"job\"} 6\n"));
}

TEST(JobName, IsTheScriptsOrTheProgrammes) {
  EXPECT_EQ(job_name({"torchrun", "--nproc-per-node=2", "/home/someone/train.py", "x.py"}),
            "train.py");
  EXPECT_EQ(job_name({"/usr/bin/srun", "./train"}), "srun");
  EXPECT_EQ(job_name({}), "");
}

}  // namespace
}  // namespace gradsync::watch
