#include "harness/memory/flat_layout.h"

#include <algorithm>

namespace gradsync::memory {
namespace {

std::int64_t rounded_up(std::int64_t number, std::int64_t multiple) {
  return (number + multiple - 1) / multiple * multiple;
}

}  // namespace

FlatLayout flat_layout(const std::vector<std::int64_t>& sizes, std::int64_t element_bytes,
                       std::int64_t ranks) {
  FlatLayout layout;
  const auto pad_to = [&](std::int64_t multiple) {
    const std::int64_t end = rounded_up(layout.padded, multiple);
    if (end > layout.padded) layout.padding.push_back({layout.padded, end - layout.padded});
    layout.padded = end;
  };
  for (const std::int64_t size : sizes) {
    pad_to(std::max<std::int64_t>(kParameterAlignment / element_bytes, 1));
    layout.offsets.push_back(layout.padded);
    layout.padded += size;
  }
  pad_to(ranks);
  return layout;
}

}  // namespace gradsync::memory
