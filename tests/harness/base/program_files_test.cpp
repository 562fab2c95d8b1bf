#include "harness/base/program_files.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "harness/base/errors.h"

namespace gradsync {
namespace {

namespace fs = std::filesystem;

class NamedFiles : public ::testing::Test {
 protected:
  NamedFiles() {
    std::string pattern = fs::temp_directory_path() / "gradsync_test_XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    for (const char* name : {"smoke.json", "all.json", "plan.schema.json", "README.md"}) {
      std::ofstream(directory_ + "/" + name) << "{}";
    }
  }
  ~NamedFiles() override { fs::remove_all(directory_); }

  std::string directory_;
};

TEST_F(NamedFiles, AreTheJsonFilesWithoutSchemasSorted) {
  EXPECT_EQ(list_json_files(directory_), (std::vector<std::string>{"all", "smoke"}));
  EXPECT_TRUE(list_json_files(directory_ + "/nowhere").empty());
}

TEST_F(NamedFiles, AreFoundByNameOrByPath) {
  EXPECT_EQ(find_json_file("gate", "smoke", directory_), directory_ + "/smoke.json");
  EXPECT_EQ(find_json_file("gate", directory_ + "/README.md", directory_),
            directory_ + "/README.md");
}

TEST_F(NamedFiles, NamesWhatThereIsWhereItIsNot) {
  try {
    find_json_file("gate", "smok", directory_);
    FAIL() << "found";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(
        error.what(),
        "gate 'smok': no such gate or file, expected a file, or one of all, smoke (did you "
        "mean smoke?)");
  }
}

}  // namespace
}  // namespace gradsync
