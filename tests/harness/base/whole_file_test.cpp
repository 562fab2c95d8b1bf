#include "harness/base/whole_file.h"

#include <gmock/gmock.h>

#include <string>

#include "harness/base/errors.h"
#include "tests/models/temporary_folder.h"

namespace gradsync {
namespace {

using ::testing::HasSubstr;

std::string long_text() {
  std::string text;
  for (int i = 0; i < 30'000; ++i) text += std::to_string(i) + ",\n";
  return text;
}

TEST(WholeFile, IsTheSameWhereItIsPacked) {
  const test::TemporaryFolder folder;
  for (const std::string& text : {std::string(), std::string("a\0b", 3), long_text()}) {
    folder.write("plain", text);
    folder.write("packed", packed(text));
    EXPECT_EQ(whole_file(folder.file("plain")), text);
    EXPECT_EQ(whole_file(folder.file("packed")), text);
  }
  EXPECT_LT(2 * packed(long_text()).size(), long_text().size());
}

TEST(WholeFile, RefusesWhatIsDamagedByItsName) {
  const test::TemporaryFolder folder;
  const std::string whole = packed(long_text());
  std::string changed = whole;
  changed[whole.size() / 2] ^= 1;
  for (const std::string& bytes : {whole.substr(0, whole.size() - 1), changed, whole + "x"}) {
    folder.write("packed", bytes);
    EXPECT_THAT(test::message_of<ConfigError>([&] { whole_file(folder.file("packed")); }),
                HasSubstr("packed: cannot be read: it is packed by gzip and damaged"));
  }
}

}  // namespace
}  // namespace gradsync
