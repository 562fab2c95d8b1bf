// Finds the torch of a command, and the error for one that cannot be watched. The torches here are
// folders with the few files that are looked at.
#include "harness/watch/inject/job_torch.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "harness/base/errors.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::watch {
namespace {

using test::TemporaryFolder;

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class JobTorchTest : public testing::Test {
 protected:
  void SetUp() override {
    write_version(2, 13);
    folder_.write("torch/lib/libtorch_cpu.so", "");
    folder_.write("torch/lib/libc10.so", "_ZN3c105ErrorC1ENSt7__cxx1112basic_string");
    folder_.write("torch/include/ATen/record_function.h", "");
    python_ = folder_.write(
        "bin/python3.11", "#!/bin/sh\necho noise of a start-up file\necho torch:" + torch() + "\n",
        true);
  }

  void write_version(int major, int minor) const {
    folder_.write("torch/include/torch/headeronly/version.h",
                  "#define TORCH_VERSION_MAJOR " + std::to_string(major) +
                      "\n#define TORCH_VERSION_MINOR " + std::to_string(minor) +
                      "\n#define TORCH_VERSION_PATCH 1\n");
  }
  void remove(const std::string& file) const {
    std::filesystem::remove(folder_.path() + "/" + file);
  }
  std::string torch() const { return folder_.path() + "/torch"; }

  void expect_found(const std::vector<std::string>& command) const {
    EXPECT_EQ(find_job_torch(command).folder, torch()) << command.front();
  }

  TemporaryFolder folder_;
  std::string python_;
};

TEST_F(JobTorchTest, IsThatOfTheInterpreterInTheCommand) {
  const JobTorch found = find_job_torch({python_, "train.py"});
  EXPECT_EQ(found.folder, torch());
  EXPECT_EQ(found.version, "2.13.1");
  EXPECT_TRUE(found.cxx11_abi);
  expect_found({"env", "A=b", python_, "-m", "torch.distributed.run", "train.py"});
  expect_found({"/bin/sh", python_});
}

TEST_F(JobTorchTest, IsThatOfAScriptsInterpreter) {
  expect_found({folder_.write("bin/torchrun", "#!" + python_ + "\nimport re\n", true), "train.py"});
  expect_found({folder_.write("bin/spaced", "#! " + python_ + " -E\n", true)});
  expect_found({folder_.write("bin/looked_up", "#!/usr/bin/env -S " + python_ + "\n", true)});
  // pip writes this where the path is too long for the kernel.
  expect_found({folder_.write(
      "bin/long", "#!/bin/sh\n'''exec' \"" + python_ + "\" \"$0\" \"$@\"\n' '''\n", true)});
}

TEST_F(JobTorchTest, AnInterpreterThatIsNamedGoesFirst) {
  EXPECT_EQ(find_job_torch({"/bin/sh", "train.sh"}, python_).folder, torch());
}

TEST_F(JobTorchTest, NamesOfFilesThatAreNoProgramsArePassedOver) {
  const std::string data = folder_.write("bin/python_data", "#!" + python_ + "\n");
  expect_found({data, python_});
}

TEST_F(JobTorchTest, ProgramsThatAreOnlyNamedLikePythonAreNotStarted) {
  const std::string ran = folder_.path() + "/ran";
  const std::string job = folder_.write("bin/python_train", "#!/bin/sh\ntouch " + ran + "\n", true);
  expect_found({job, python_});
  EXPECT_FALSE(std::filesystem::exists(ran));
}

TEST_F(JobTorchTest, TheOldNamesOfStringsAreToldApart) {
  using namespace std::string_literals;
  folder_.write("torch/lib/libc10.so", "_ZN3c105ErrorC1ESs\0_ZNSt7__cxx1112basic_string"s);
  EXPECT_FALSE(examine_torch(torch()).cxx11_abi);
}

TEST_F(JobTorchTest, AnInterpreterWithoutTorchIsNamed) {
  const std::string python = folder_.write("other/python3", "#!/bin/sh\necho torch:\n", true);
  EXPECT_THAT(
      [&] {
        find_job_torch({python, "train.py"});
      },
      ThrowsMessage<EnvironmentError>(
          AllOf(HasSubstr(python + " has no torch"), HasSubstr("--python"))));
}

TEST_F(JobTorchTest, AStaticallyLinkedTorchIsRefused) {
  remove("torch/lib/libtorch_cpu.so");
  EXPECT_THAT([&] { examine_torch(torch()); },
              ThrowsMessage<EnvironmentError>(
                  AllOf(HasSubstr("the torch in " + torch() + " has no lib/libtorch_cpu.so"),
                        HasSubstr("linked statically cannot be watched"))));
}

TEST_F(JobTorchTest, ATorchWithoutHeadersIsRefused) {
  remove("torch/include/ATen/record_function.h");
  EXPECT_THAT([&] { examine_torch(torch()); },
              ThrowsMessage<EnvironmentError>(HasSubstr("has no include/ATen/record_function.h")));
}

TEST_F(JobTorchTest, AVersionWhereItWasOnceKept) {
  remove("torch/include/torch/headeronly/version.h");
  folder_.write("torch/include/torch/csrc/api/include/torch/version.h",
                "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 6\n"
                "#define TORCH_VERSION_PATCH 0\n");
  EXPECT_EQ(examine_torch(torch()).version, "2.6.0");
}

TEST_F(JobTorchTest, AnOldTorchIsRefused) {
  write_version(2, 5);
  EXPECT_THAT([&] { examine_torch(torch()); },
              ThrowsMessage<EnvironmentError>(
                  AllOf(HasSubstr("the torch in " + torch() + " is version 2.5"),
                        HasSubstr("the watcher needs 2.6 or later"))));
}

}  // namespace
}  // namespace gradsync::watch
