#include "harness/base/in_parallel.h"

#include <gmock/gmock.h>

#include <atomic>
#include <stdexcept>
#include <string>

namespace gradsync {
namespace {

TEST(InParallel, EachThingIsDoneOnce) {
  for (const std::size_t count : {0U, 1U, 7U, 64U, 1000U}) {
    std::vector<std::atomic<int>> done(count);
    in_parallel(count, 3, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) ++done[i];
    });
    for (const auto& each : done) EXPECT_EQ(each, 1) << count;
  }
}

TEST(InParallel, FewThingsAreOnePart) {
  std::atomic<int> parts = 0;
  in_parallel(9, 10, [&](std::size_t, std::size_t end) { parts += end == 9 ? 1 : 100; });
  EXPECT_EQ(parts, 1);
}

TEST(InParallel, TheFirstPartsErrorIsTold) {
  const auto fail = [](std::size_t begin, std::size_t) {
    throw std::runtime_error(std::to_string(begin));
  };
  for (int repetition = 0; repetition < 20; ++repetition) {
    try {
      in_parallel(100, 1, fail);
      FAIL() << "no error";
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(std::string(error.what()), "0");
    }
  }
}

}  // namespace
}  // namespace gradsync
