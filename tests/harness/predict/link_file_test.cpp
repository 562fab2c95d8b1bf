#include "harness/predict/link_file.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "harness/base/errors.h"

namespace gradsync::predict {
namespace {

using ::testing::HasSubstr;

LinkFile read_back(const std::string& text) {
  const auto path = std::filesystem::temp_directory_path() / "gradsync_link_file_test.json";
  std::ofstream(path) << text;
  return read_link_file(path.string());
}

std::string complaint_about(const std::string& text) {
  try {
    read_back(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(LinkFile, SaysWhatATopologyDoesNot) {
  const auto file = read_back(R"({"schema": "gradsync.links/1", "source": "a test",
      "latency_s": 2e-5, "collective_s": 1e-4, "per_byte_s": 1e-10, "copy_per_byte_s": 2e-10,
      "micro_batch_s": 1e-3, "algorithm": "two_level", "processor_per_byte_s": 1e-9,
      "fill_per_byte_s": 3e-10, "shard_per_byte_s": 4e-10,
      "doubt": {"compute": 0.01, "rate": 0.02, "host": 0.3}})");
  EXPECT_DOUBLE_EQ(file.constants.latency_s, 2e-5);
  EXPECT_DOUBLE_EQ(file.constants.host.collective_s, 1e-4);
  EXPECT_DOUBLE_EQ(file.constants.host.per_byte_s, 1e-10);
  EXPECT_DOUBLE_EQ(file.constants.host.copy_per_byte_s, 2e-10);
  EXPECT_DOUBLE_EQ(file.constants.host.micro_batch_s, 1e-3);
  EXPECT_DOUBLE_EQ(file.constants.host.processor_per_byte_s, 1e-9);
  EXPECT_DOUBLE_EQ(file.constants.host.fill_per_byte_s, 3e-10);
  EXPECT_DOUBLE_EQ(file.constants.host.shard_per_byte_s, 4e-10);
  EXPECT_EQ(file.constants.algorithm, Algorithm::TwoLevel);
  EXPECT_DOUBLE_EQ(file.doubt.host, 0.3);
}

TEST(LinkFile, IsRefusedWhereItCannotBeTrue) {
  EXPECT_THAT(complaint_about(R"({"schema": "gradsync.links/1", "source": "", "latency_s": -1})"),
              HasSubstr("field 'latency_s': got -1"));
  EXPECT_THAT(
      complaint_about(R"({"schema": "gradsync.links/1", "source": "", "payload_share": 2})"),
      HasSubstr("payload_share"));
  EXPECT_THAT(complaint_about(R"({"schema": "gradsync.links/1", "source": "", "latency": 1})"),
              HasSubstr("latency"));
  EXPECT_THAT(complaint_about(R"({"schema": "gradsync.plan/1", "source": ""})"),
              HasSubstr("schema"));
  EXPECT_THAT(
      complaint_about(R"({"schema": "gradsync.links/1", "source": "", "algorithm": "star"})"),
      HasSubstr("algorithm"));
}

}  // namespace
}  // namespace gradsync::predict
