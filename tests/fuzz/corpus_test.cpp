// The corpus once more without libFuzzer: what a fuzzer found stays found. A file whose name begins
// with "valid" must be accepted, every other one refused.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/fuzz/readers.h"
#include "tests/paths.h"

namespace gradsync::fuzz {
namespace {

namespace fs = std::filesystem;

const fs::path kCorpus = test::path_of("fuzz_corpus");  // unpacked by the build

std::string bytes_of(const fs::path& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

class Corpus : public testing::TestWithParam<Reader> {};

TEST_P(Corpus, IsAcceptedWhereItIsValidAndRefusedElsewhere) {
  int valid = 0;
  int wrong = 0;
  for (const auto& entry : fs::directory_iterator(kCorpus / GetParam().name)) {
    const bool is_valid = entry.path().filename().string().starts_with("valid");
    ++(is_valid ? valid : wrong);
    EXPECT_EQ(GetParam().accepts(bytes_of(entry.path())), is_valid) << entry.path();
  }
  EXPECT_GT(valid, 0);
  EXPECT_GT(wrong, 0);
}

// Whatever is cut off a valid file, and whatever one of its bytes becomes, it is read or refused.
TEST_P(Corpus, SurvivesEveryCutAndEveryByteTurned) {
  for (const auto& entry : fs::directory_iterator(kCorpus / GetParam().name)) {
    if (!entry.path().filename().string().starts_with("valid")) continue;
    const std::string bytes = bytes_of(entry.path());
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      EXPECT_NO_THROW(GetParam().accepts(std::string_view(bytes).substr(0, i)));
      std::string turned = bytes;
      turned[i] = static_cast<char>(turned[i] ^ 0x11);
      EXPECT_NO_THROW(GetParam().accepts(turned)) << entry.path() << " at " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Readers, Corpus, testing::ValuesIn(readers()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace gradsync::fuzz
