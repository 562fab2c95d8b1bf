#include "harness/results/run_context.h"

#include <gtest/gtest.h>

#include "harness/base/errors.h"

namespace gradsync::results {
namespace {

using nlohmann::json;

TEST(Context, IsWrittenAsItWasAndAnswersWhatIsAskedOfIt) {
  const json written = {{"torch", "2.11.0"},
                        {"governor", "performance"},
                        {"seed", 18446744073709551615U},
                        {"launcher", nullptr},
                        {"links", {{"2x1 / 50", {{"measured_payload_bits_per_s", 9e8}}}}},
                        {"topologies", {{"2x1", {{"nodes", 2}, {"about", "two"}}}}}};
  const Context context(written);
  EXPECT_EQ(json(context), written);
  EXPECT_EQ(context.torch, "2.11.0");
  EXPECT_EQ(context.seed, 18446744073709551615U);
  EXPECT_FALSE(context.launcher.has_value());
  EXPECT_EQ(context.links.at("2x1 / 50").measured_payload_bits_per_s, 9e8);
  EXPECT_EQ(context.topologies.at("2x1").nodes, 2);
}

TEST(Context, WhatIsNotSaidIsAsUsual) {
  for (const json& nothing : {json(nullptr), json::object()}) {
    const Context context(nothing);
    EXPECT_TRUE(context.timing_valid);
    EXPECT_EQ(context.peak_memory_reason, "not measured");
    EXPECT_FALSE(context.clocks.has_value());
    EXPECT_EQ(json(context), nothing);
  }
}

TEST(Context, AWrongTypeIsNamed) {
  try {
    const Context context(json{{"topologies", {{"2x1", {{"nodes", "two"}}}}}});
    FAIL() << "read a text as a number";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "a run's context: field 'topologies.2x1.nodes': got \"two\", expected an integer "
                 "of 32 bits");
  }
}

}  // namespace
}  // namespace gradsync::results
