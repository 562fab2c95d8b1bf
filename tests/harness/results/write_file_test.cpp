#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "harness/base/errors.h"
#include "harness/results/store.h"
#include "tests/harness/results/limits.h"
#include "tests/harness/results/samples.h"

namespace gradsync::results {
namespace {

using testing::HasSubstr;

TEST(WriteAtomically, ReplacesTheWholeFileAndLeavesNothingElse) {
  const TemporaryDirectory dir;
  write_atomically(dir / "result.json", "a long first version");
  write_atomically(dir / "result.json", "second");
  EXPECT_EQ(slurp(dir / "result.json"), "second");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);
}

TEST(WriteAtomically, NeverWritesInPlace) {
  const TemporaryDirectory dir;
  write_atomically(dir / "result.json", "first");
  std::filesystem::create_hard_link(dir / "result.json", dir / "seen_by_a_reader");
  write_atomically(dir / "result.json", "second");
  EXPECT_EQ(slurp(dir / "seen_by_a_reader"), "first");
}

TEST(WriteAtomically, FullDiskKeepsTheOldFileAndNoTemporary) {
  const TemporaryDirectory dir;
  write_atomically(dir / "result.json", "first");
  {
    const FileSizeLimit limit(1000);
    try {
      write_atomically(dir / "result.json", std::string(5000, 'x'));
      FAIL() << "wrote past the limit";
    } catch (const ResultsError& error) {
      EXPECT_THAT(error.what(), HasSubstr("result.json: cannot be written: File too large"));
    }
  }
  EXPECT_EQ(slurp(dir / "result.json"), "first");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);
}

TEST(WriteAtomically, MissingDirectoryIsSaidInTheSystemsWords) {
  const TemporaryDirectory dir;
  try {
    write_atomically(dir / "gone/result.json", "text");
    FAIL() << "wrote into a directory that is not there";
  } catch (const ResultsError& error) {
    EXPECT_THAT(error.what(), HasSubstr("No such file or directory"));
  }
}

}  // namespace
}  // namespace gradsync::results
