#include "harness/launch/tcp.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace gradsync::launch {
namespace {

TEST(Interfaces, AreFoundByTheirAddress) {
  const auto names = interface_names();
  EXPECT_EQ(std::count(names.begin(), names.end(), "lo"), 1);
  EXPECT_EQ(interface_of("127.0.0.1"), "lo");
  EXPECT_EQ(interface_of("192.0.2.1"), "");  // kept for documentation: nobody has it
  EXPECT_EQ(address_of_interface("lo"), "127.0.0.1");
  EXPECT_EQ(address_of_interface("no-such-interface"), "");
}

}  // namespace
}  // namespace gradsync::launch
