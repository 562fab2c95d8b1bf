// A device whose queue reaches its marks when a test says.
#pragma once

#include <vector>

#include "harness/measure/timeline.h"

namespace gradsync::test {

class FakeTimeline final : public measure::Timeline {
 public:
  std::int64_t mark() override { return marks++; }
  std::vector<std::int64_t> reached(const std::function<void()>& progress) override {
    if (progress) progress();
    return moments_ns;
  }
  void forget() override { marks = 0; }

  std::int64_t marks = 0;
  std::vector<std::int64_t> moments_ns;  // of all marks, by number
};

}  // namespace gradsync::test
