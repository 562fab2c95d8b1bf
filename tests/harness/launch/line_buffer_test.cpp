#include "harness/launch/line_buffer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gradsync::launch {
namespace {

std::vector<std::string> lines_of(const std::string& stream, std::size_t piece) {
  LineBuffer buffer;
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < stream.size(); at += piece) {
    buffer.append(std::string_view(stream).substr(at, piece));
    while (auto line = buffer.next()) lines.push_back(*line);
  }
  return lines;
}

TEST(LineBuffer, CutsTheSameLinesHoweverTheStreamIsCut) {
  const std::string stream = "one\n\nthree is longer\n4\nnever ended";
  const std::vector<std::string> expected{"one", "", "three is longer", "4"};
  for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
    EXPECT_EQ(lines_of(stream, piece), expected) << "in pieces of " << piece;
  }
}

TEST(LineBuffer, GoesOnAfterAnIncompleteLine) {
  LineBuffer buffer;
  buffer.append("a\nhal");
  EXPECT_EQ(buffer.next(), "a");
  EXPECT_EQ(buffer.next(), std::nullopt);
  EXPECT_EQ(buffer.next(), std::nullopt);
  buffer.append("f\n");
  EXPECT_EQ(buffer.next(), "half");
  EXPECT_EQ(buffer.next(), std::nullopt);
}

}  // namespace
}  // namespace gradsync::launch
