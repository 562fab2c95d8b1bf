#include "harness/base/units.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace gradsync {
namespace {

TEST(ParseRate, ReadsBitsInPowersOfAThousand) {
  EXPECT_DOUBLE_EQ(parse_rate_bits_per_s("1Gbps"), 1e9);
  EXPECT_DOUBLE_EQ(parse_rate_bits_per_s("2.5Gbps"), 2.5e9);
  EXPECT_DOUBLE_EQ(parse_rate_bits_per_s("200Mbps"), 2e8);
  EXPECT_DOUBLE_EQ(parse_rate_bits_per_s("64Kbps"), 6.4e4);
  EXPECT_DOUBLE_EQ(parse_rate_bits_per_s("9600bps"), 9600.0);
}

TEST(ParseSize, TellsPowersOfAThousandFromPowersOf1024) {
  EXPECT_EQ(parse_size_bytes("25MiB"), 25 * 1024 * 1024);
  EXPECT_EQ(parse_size_bytes("25MB"), 25'000'000);
  EXPECT_EQ(parse_size_bytes("1KiB"), 1024);
  EXPECT_EQ(parse_size_bytes("1KB"), 1000);
  EXPECT_EQ(parse_size_bytes("0.5GiB"), 1LL << 29);
  EXPECT_EQ(parse_size_bytes("3GB"), 3'000'000'000);
  EXPECT_EQ(parse_size_bytes("7B"), 7);
  EXPECT_EQ(parse_size_bytes("0B"), 0);
}

TEST(ParseDuration, ReadsSeconds) {
  EXPECT_DOUBLE_EQ(parse_duration_s("50us"), 50e-6);
  EXPECT_DOUBLE_EQ(parse_duration_s("12ns"), 12e-9);
  EXPECT_DOUBLE_EQ(parse_duration_s("1.5ms"), 1.5e-3);
  EXPECT_DOUBLE_EQ(parse_duration_s("2s"), 2.0);
  EXPECT_DOUBLE_EQ(parse_duration_s("5m"), 300.0);
  EXPECT_DOUBLE_EQ(parse_duration_s("0.5h"), 1800.0);
  for (const double seconds : {0.0, 12.0, 220.0, 3660.0}) {
    EXPECT_DOUBLE_EQ(parse_duration_s(format_duration(seconds)), seconds);
  }
}

TEST(ParsePercent, ReadsShares) {
  EXPECT_EQ(parse_percent("3%"), 0.03);
  EXPECT_EQ(parse_percent("0.5%"), 0.005);
  EXPECT_EQ(parse_percent("0%"), 0.0);
  EXPECT_EQ(parse_percent("150%"), 1.5);
}

template <typename Parse>
std::string complaint(Parse parse, const std::string& text) {
  try {
    parse(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted " + text;
}

class WrongQuantity : public ::testing::TestWithParam<const char*> {};

TEST_P(WrongQuantity, IsRefusedWithWhatWasExpected) {
  EXPECT_EQ(complaint(parse_rate_bits_per_s, GetParam()),
            "a positive rate with its unit, such as \"1Gbps\" or \"200Mbps\"");
  EXPECT_EQ(complaint(parse_size_bytes, GetParam()),
            "a size with its unit, such as \"25MiB\" or \"1GB\"");
  EXPECT_EQ(complaint(parse_duration_s, GetParam()),
            "a duration with its unit, such as \"50us\" or \"5m\"");
  EXPECT_EQ(complaint(parse_percent, GetParam()), "a percentage, such as \"3%\" or \"0.5%\"");
}

// No unit, no number, another kind's unit, wrong case, blanks, signs, and numbers that are none.
INSTANTIATE_TEST_SUITE_P(Units, WrongQuantity,
                         ::testing::Values("", "10", "Gbps", "10 Gbps", "10GBPS", "10Gbps ",
                                           " 1Gbps", "-1Gbps", "-5MiB", "-2s", "infGbps", "nans",
                                           "nanB", "1e999GB", "10furlongs", "1,5s", "0x10B"));

TEST(ParseRate, RefusesZeroAndBytes) {
  EXPECT_THROW(parse_rate_bits_per_s("0Gbps"), std::invalid_argument);
  EXPECT_THROW(parse_rate_bits_per_s("10GBps"), std::invalid_argument);
}

TEST(ParseSize, RefusesBits) {
  EXPECT_THROW(parse_size_bytes("10Gb"), std::invalid_argument);
}

TEST(ParseSize, RefusesWhatNoIntegerHolds) {
  EXPECT_THROW(parse_size_bytes("1e300GiB"), std::invalid_argument);
}

TEST(FormatBytes, ChangesUnitAtPowersOf1024) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes(12.5 * 1024), "12.5 KiB");
  EXPECT_EQ(format_bytes(25.0 * 1024 * 1024), "25.0 MiB");
  EXPECT_EQ(format_bytes(1.64 * 1024 * 1024 * 1024), "1.64 GiB");
}

TEST(FormatRate, ChangesUnitAtPowersOfAThousand) {
  EXPECT_EQ(format_rate(7.6e9), "7.60 Gbit/s");
  EXPECT_EQ(format_rate(1e9), "1.00 Gbit/s");
  EXPECT_EQ(format_rate(956.4e6), "956.4 Mbit/s");
  EXPECT_EQ(format_rate(9600), "9.6 Kbit/s");
}

TEST(FormatDuration, ReadsLikeAnEta) {
  EXPECT_EQ(format_duration(0.2), "0s");
  EXPECT_EQ(format_duration(12.4), "12s");
  EXPECT_EQ(format_duration(59.6), "1m00s");
  EXPECT_EQ(format_duration(220), "3m40s");
  EXPECT_EQ(format_duration(3661), "1h01m");
}

}  // namespace
}  // namespace gradsync
