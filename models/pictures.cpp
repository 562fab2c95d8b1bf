#include "models/pictures.h"

#include <algorithm>
#include <cmath>

#include "models/seeded_random.h"

namespace gradsync::models {

std::vector<Example> synthetic_pictures(std::int64_t count, std::int64_t pixels,
                                        std::uint64_t seed) {
  SeededRandom random(seed);
  std::vector<Example> examples(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const std::size_t label = i % kPictureClasses.size();
    const PictureClass& shown = kPictureClasses[label];
    for (std::int64_t k = 0; k < pixels; ++k) {
      const double level = std::round(shown.brightness + shown.contrast * random.normal());
      examples[i].ids.push_back(
          static_cast<std::int64_t>(std::clamp(level, 0.0, static_cast<double>(kPixelLevels - 1))));
    }
    examples[i].label = static_cast<std::int64_t>(label);
  }
  return examples;
}

}  // namespace gradsync::models
