// Which of many combinations a test tries: half of them, and all where ctest's slow tests run it.
#pragma once

#include <bit>
#include <cstdlib>

namespace gradsync::test {

inline bool tries_all() {
  return std::getenv("GRADSYNC_EVERY_OPTION") != nullptr;
}

// Whether combination `number` is tried. Where its bits are options, all but any one of them occur
// in every combination among those that are. Where it counts what differs in several ways, it is
// tried in no period; who counts begins where each pair of two levers' values that occurs among all
// is among those that are tried. With GRADSYNC_EVERY_OPTION in the environment all are.
inline bool tries(int number) {
  return tries_all() || std::popcount(static_cast<unsigned>(number)) % 2 == 0;
}

}  // namespace gradsync::test
