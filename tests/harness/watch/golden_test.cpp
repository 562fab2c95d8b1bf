// The pages of a watched job as people see them, to the letter. GRADSYNC_ACCEPT_GOLDEN=1 rewrites
// the files: read the difference before you commit it.
#include <gmock/gmock.h>

#include <sstream>

#include "harness/report/text_width.h"
#include "harness/watch/watched.h"
#include "tests/harness/report/golden.h"
#include "tests/harness/watch/sample_jobs.h"

namespace gradsync::watch {
namespace {

constexpr std::size_t kTerminalWidth = 80;

TEST(GoldenWatch, PagesOfAllKindsOfJobs) {
  for (const auto& [name, processes] : gradsync::testing::sample_jobs()) {
    const std::string page = watch_page(summarize(processes));
    gradsync::testing::expect_golden(
        GRADSYNC_SOURCE_DIR "/tests/harness/watch/golden/" + name + ".txt", page);
    std::istringstream lines(page);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(report::display_width(line), kTerminalWidth) << name << ": " << line;
    }
  }
}

}  // namespace
}  // namespace gradsync::watch
