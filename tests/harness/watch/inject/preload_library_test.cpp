// Building the preloaded libraries where something is wrong; benchmarks/watch_test.py builds them
// against a real torch.
//
// Covers: compile_on_use.cpp.
#include "harness/watch/inject/preload_library.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>

#include "harness/base/errors.h"
#include "harness/launch/program_output.h"
#include "tests/models/temporary_folder.h"
#include "tests/paths.h"

namespace gradsync::watch {
namespace {

using test::TemporaryFolder;

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

// Sets a variable of the environment until the end of a scope.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (before_) {
      ::setenv(name_, before_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

class PreloadLibraryTest : public testing::Test {
 protected:
  JobTorch torch() const { return {folder_.path() + "/torch", "2.11.0", true}; }
  std::string cache() const { return folder_.path() + "/cache"; }
  PreloadBuild build() const { return {torch(), test::path_of("source"), cache()}; }
  bool cache_is_empty() const { return !fs::exists(cache()) || fs::is_empty(cache()); }

  TemporaryFolder folder_;
};

// A compiler that makes what it is asked for, without a look at the sources.
constexpr const char* kObedient =
    "#!/bin/sh\nwhile [ $# -gt 0 ]; do [ \"$1\" = -o ] && echo made > \"$2\"; shift; done\n";

TEST_F(PreloadLibraryTest, IsBuiltOnceAndFoundThen) {
  const Variable compiler("CXX", folder_.write("obedient", kObedient, true));
  EXPECT_FALSE(build().find());
  const PreloadLibrary built = build().build();
  EXPECT_TRUE(fs::exists(built.loader));
  EXPECT_TRUE(fs::exists(built.watcher));
  const auto found = build().find();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->loader, built.loader);
  EXPECT_EQ(found->watcher, built.watcher);
  EXPECT_THAT(built.loader, HasSubstr(cache() + "/torch-2.11.0-"));
}

TEST_F(PreloadLibraryTest, ASecondBuilderTakesWhatTheFirstMade) {
  const Variable compiler("CXX", folder_.write("obedient", kObedient, true));
  const PreloadBuild first = build();
  const PreloadBuild second = build();
  EXPECT_EQ(first.build().loader, second.build().loader);
  EXPECT_EQ(std::distance(fs::directory_iterator(cache()), fs::directory_iterator()), 1);
}

TEST_F(PreloadLibraryTest, AnotherTorchIsAnotherBuild) {
  const Variable compiler("CXX", folder_.write("obedient", kObedient, true));
  build().build();
  JobTorch other = torch();
  other.version = "2.12.0";
  EXPECT_FALSE(PreloadBuild(other, test::path_of("source"), cache()).find());
  folder_.write("torch/lib/libtorch_cpu.so", "another build of the same version");
  EXPECT_FALSE(build().find());
}

// event.h is in none of the lists of sources: a source includes a header that includes it.
TEST_F(PreloadLibraryTest, AnotherHeaderIsAnotherBuild) {
  const Variable compiler("CXX", folder_.write("obedient", kObedient, true));
  const std::string tree = folder_.path() + "/tree";
  const std::string watch = "/harness/watch";
  fs::create_directories(tree + watch);
  fs::copy(test::path_of("source") + watch, tree + watch, fs::copy_options::recursive);
  PreloadBuild(torch(), tree, cache()).build();
  EXPECT_TRUE(PreloadBuild(torch(), tree, cache()).find());
  std::ofstream(tree + watch + "/inject/preload/event_kind.h", std::ios::app) << "// changed\n";
  EXPECT_FALSE(PreloadBuild(torch(), tree, cache()).find());
}

TEST_F(PreloadLibraryTest, AFailedBuildSaysTheFirstErrorAndLeavesNothing) {
  const Variable compiler(
      "CXX",
      folder_.write("broken", "#!/bin/sh\necho note\necho a.h:1: error: no such thing\nexit 1\n",
                    true));
  EXPECT_THAT([&] { build().build(); },
              ThrowsMessage<EnvironmentError>(
                  HasSubstr("the watcher cannot be built: a.h:1: error: no such thing")));
  EXPECT_TRUE(cache_is_empty());
}

TEST_F(PreloadLibraryTest, ACacheThatCannotBeWrittenIsNamed) {
  const Variable compiler("CXX", folder_.write("obedient", kObedient, true));
  const std::string file = folder_.write("file", "");
  EXPECT_THAT([&] { PreloadBuild(torch(), test::path_of("source"), file).build(); },
              ThrowsMessage<EnvironmentError>(
                  AllOf(HasSubstr(file + "/torch-2.11.0-"), HasSubstr("XDG_CACHE_HOME"))));
}

TEST_F(PreloadLibraryTest, WithoutACompilerItSaysSo) {
  const Variable compiler("CXX", "");
  const Variable path("PATH", "/nonexistent");
  if (fs::exists("/usr/sbin/c++")) GTEST_SKIP() << "a compiler beside PATH";
  EXPECT_THAT([&] { build(); },
              ThrowsMessage<EnvironmentError>(HasSubstr("there is no C++ compiler")));
}

TEST(PreloadCache, IsWhereTheEnvironmentSays) {
  const Variable home("HOME", "/home/someone");
  const Variable cache("XDG_CACHE_HOME", "/cache");
  EXPECT_EQ(preload_cache(), "/cache/gradsync/watch");
  ::unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(preload_cache(), "/home/someone/.cache/gradsync/watch");
}

}  // namespace
}  // namespace gradsync::watch
