#include "harness/base/grouped.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>

namespace gradsync {
namespace {

using ::testing::ElementsAre;
using Thing = std::pair<std::string, int>;

TEST(Grouped, WhatHasOneKeyIsTogetherInTheOrderInWhichItComes) {
  const std::vector<Thing> things{{"b", 1}, {"a", 2}, {"b", 3}};
  EXPECT_THAT(grouped(things, &Thing::first),
              ElementsAre(ElementsAre(&things[0], &things[2]), ElementsAre(&things[1])));
}

TEST(Grouped, OfAViewTheThingsThemselves) {
  const std::vector<int> numbers{4, 7, 6, 9};
  const auto even = [](int number) { return number % 2 == 0; };
  EXPECT_THAT(grouped(numbers | std::views::filter(even), [](int number) { return number > 5; }),
              ElementsAre(ElementsAre(&numbers[0]), ElementsAre(&numbers[2])));
  EXPECT_TRUE(grouped(std::vector<int>(), std::negate<>()).empty());
}

}  // namespace
}  // namespace gradsync
