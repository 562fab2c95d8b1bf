// The pages of a watched job as people see them, to the letter. GRADSYNC_ACCEPT_GOLDEN=1 rewrites
// the files: read the difference before you commit it.
// Covers: comparison.cpp, page.cpp.
#include <gmock/gmock.h>

#include <map>
#include <sstream>

#include "harness/text/text_width.h"
#include "harness/watch/comparison.h"
#include "harness/watch/watched.h"
#include "tests/harness/report/golden.h"
#include "tests/harness/watch/sample_jobs.h"

namespace gradsync::watch {
namespace {

constexpr std::size_t kTerminalWidth = 80;

void expect_page(const std::string& name, const std::string& page) {
  gradsync::test::expect_golden(GRADSYNC_SOURCE_DIR "/tests/harness/watch/golden/" + name + ".txt",
                                page);
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(text::display_width(line), kTerminalWidth) << name << ": " << line;
  }
}

TEST(GoldenWatch, PagesOfAllKindsOfJobs) {
  for (const auto& [name, processes] : gradsync::test::sample_jobs()) {
    expect_page(name, watch_page(summarize(processes)));
  }
}

TEST(GoldenWatch, TwoJobsSideBySide) {
  std::map<std::string, NamedJob> jobs;
  for (const auto& [name, processes] : gradsync::test::sample_jobs()) {
    jobs[name] = {name + ".json", summarize(processes)};
  }
  expect_page("compared_before_and_after",
              watch_comparison(jobs.at("improper"), jobs.at("proper")));
  expect_page("compared_alike", watch_comparison(jobs.at("proper"), jobs.at("proper")));
  expect_page("compared_nothing", watch_comparison(jobs.at("never"), jobs.at("nothing")));
}

}  // namespace
}  // namespace gradsync::watch
