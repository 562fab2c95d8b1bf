// The sizes of the perceptron.   No torch.
#pragma once

#include <array>
#include <cstdint>

namespace gradsync::models {

inline constexpr std::int64_t kMlpVocabulary = 1000;
inline constexpr std::array<std::int64_t, 4> kMlpWidths{64, 512, 512, 2};

}  // namespace gradsync::models
