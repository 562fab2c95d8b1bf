// What libFuzzer calls; compiled once for each reader, whose name is GRADSYNC_FUZZ_READER.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/readers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto reader =
      std::ranges::find(gradsync::fuzz::readers(), std::string_view(GRADSYNC_FUZZ_READER),
                        &gradsync::fuzz::Reader::name);
  reader->accepts({reinterpret_cast<const char*>(data), size});
  return 0;
}
