// Reads streams of allocations and prints what the model of torch's caching allocator makes of
// each: print_model_peaks LIMIT_BYTES <streams. A stream is a line of numbers: a positive one
// allocates that many bytes, -N frees what the stream's Nth allocation took, if it took any. Per
// stream one line: allocated and reserved at their most, reserved at the end, allocations that got
// nothing.
#include <iostream>
#include <sstream>
#include <string>

#include "harness/measure/caching_allocator_model.h"

int main(int count, char** words) {
  if (count != 2) return 2;
  const std::int64_t limit_bytes = std::stoll(words[1]);
  for (std::string line; std::getline(std::cin, line);) {
    gradsync::measure::CachingAllocatorModel model(limit_bytes);
    std::istringstream numbers(line);
    std::set<std::uint64_t> refused;
    std::uint64_t allocations = 0;
    for (std::int64_t number = 0; numbers >> number;) {
      if (number > 0) {
        if (!model.allocate(++allocations, number)) refused.insert(allocations);
      } else if (!refused.contains(static_cast<std::uint64_t>(-number))) {
        model.free(static_cast<std::uint64_t>(-number));
      }
    }
    std::cout << model.peak_allocated_bytes() << " " << model.peak_reserved_bytes() << " "
              << model.reserved_bytes() << " " << refused.size() << "\n";
  }
  return 0;
}
