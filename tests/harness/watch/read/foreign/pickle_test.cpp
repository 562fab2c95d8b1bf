#include "harness/watch/read/foreign/pickle.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "harness/base/errors.h"

namespace gradsync::watch {
namespace {

using nlohmann::json;

std::string pickled(const std::vector<int>& values) {
  return {values.begin(), values.end()};
}

// What Python's pickle.dumps() makes of
//   shared = [1, 2]
//   {"a": shared, "b": shared, "t": ("x", None, True), "n": -70000, "big": 1 << 40,
//    "neg": -(1 << 40), "f": 0.5, "e": []}
const std::string kProtocol2 = pickled(
    {128, 2,   125, 113, 0,  40, 88,  1,   0,   0,   0,   97,  113, 1,   93,  113, 2,   40,  75,
     1,   75,  2,   101, 88, 1,  0,   0,   0,   98,  113, 3,   104, 2,   88,  1,   0,   0,   0,
     116, 113, 4,   88,  1,  0,  0,   0,   120, 113, 5,   78,  136, 135, 113, 6,   88,  1,   0,
     0,   0,   110, 113, 7,  74, 144, 238, 254, 255, 88,  3,   0,   0,   0,   98,  105, 103, 113,
     8,   138, 6,   0,   0,  0,  0,   0,   1,   88,  3,   0,   0,   0,   110, 101, 103, 113, 9,
     138, 6,   0,   0,   0,  0,  0,   255, 88,  1,   0,   0,   0,   102, 113, 10,  71,  63,  224,
     0,   0,   0,   0,   0,  0,  88,  1,   0,   0,   0,   101, 113, 11,  93,  113, 12,  117, 46});
const std::string kProtocol4 =
    pickled({128, 4,   149, 91,  0,   0,   0,   0,   0,   0,   0,   125, 148, 40,  140, 1,   97,
             148, 93,  148, 40,  75,  1,   75,  2,   101, 140, 1,   98,  148, 104, 2,   140, 1,
             116, 148, 140, 1,   120, 148, 78,  136, 135, 148, 140, 1,   110, 148, 74,  144, 238,
             254, 255, 140, 3,   98,  105, 103, 148, 138, 6,   0,   0,   0,   0,   0,   1,   140,
             3,   110, 101, 103, 148, 138, 6,   0,   0,   0,   0,   0,   255, 140, 1,   102, 148,
             71,  63,  224, 0,   0,   0,   0,   0,   0,   140, 1,   101, 148, 93,  148, 117, 46});

TEST(Pickle, ReadsPlainDataWithWhatItSharesInBothPlaces) {
  const json expected = {{"a", {1, 2}},
                         {"b", {1, 2}},
                         {"t", {"x", nullptr, true}},
                         {"n", -70000},
                         {"big", std::int64_t{1} << 40},
                         {"neg", -(std::int64_t{1} << 40)},
                         {"f", 0.5},
                         {"e", json::array()}};
  EXPECT_EQ(parse_pickle(kProtocol2, "dump"), expected);
  EXPECT_EQ(parse_pickle(kProtocol4, "dump"), expected);
}

std::string pickle_refusal(const std::string& bytes) {
  try {
    parse_pickle(bytes, "dump");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

// os.system("true"), as pickle.dumps() has an object whose __reduce__ says so.
TEST(Pickle, RefusesWhatWouldRunCode) {
  const std::string system = pickled({0x80, 2}) + "cposix\nsystem\n" + pickled({'X', 4, 0, 0, 0}) +
                             "true" + pickled({0x85, 'R', '.'});
  EXPECT_EQ(pickle_refusal(system),
            "dump: field 'byte 3': got the opcode GLOBAL, which may run code, expected plain data");
}

TEST(Pickle, RefusesWhatIsCutOff) {
  for (std::size_t i = 0; i < kProtocol2.size(); ++i) {
    EXPECT_NE(pickle_refusal(kProtocol2.substr(0, i)), "") << i;
  }
}

// Each list holds the one before twice: a few bytes ask for more memory than there is.
TEST(Pickle, RefusesMoreValuesThanMemoryHolds) {
  std::string bytes = pickled({0x80, 2, ']', 'q', 0});
  for (int i = 1; i < 60; ++i) {
    bytes += pickled({']', 'q', i, '(', 'h', i - 1, 'h', i - 1, 'e'});
  }
  EXPECT_THAT(pickle_refusal(bytes + "."), testing::HasSubstr("got more values"));
}

}  // namespace
}  // namespace gradsync::watch
