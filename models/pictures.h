// Synthetic pictures of three classes: the cat, the dog and the car of the guide to distributed
// training, as far as batch normalization distinguishes them. Each class has a brightness and a
// contrast of its own, so that a rank which sees one class alone has another mean and another
// variance than its peers, and than the whole batch. No torch.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "models/data_file.h"

namespace gradsync::models {

inline constexpr std::int64_t kPixelLevels = 256;  // a pixel is 0, black, to 255

struct PictureClass {
  const char* name;
  double brightness;  // mean of its pixels
  double contrast;    // their standard deviation
};

// A label is a place in this list.
inline constexpr std::array<PictureClass, 3> kPictureClasses{
    {{"cat", 80, 20}, {"dog", 130, 45}, {"car", 190, 10}}};

// Returns `count` pictures of `pixels` gray pixels, as many of each class (one more of the first
// ones where they do not divide); ids[i] is pixel i, row by row.
std::vector<Example> synthetic_pictures(std::int64_t count, std::int64_t pixels,
                                        std::uint64_t seed);

}  // namespace gradsync::models
