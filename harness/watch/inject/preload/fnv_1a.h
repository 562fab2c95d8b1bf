// The hash FNV-1a, 64 bits, with Fowler, Noll and Vo's own offset and prime: the same number for
// the same text in every process.
#pragma once

#include <cstdint>
#include <string_view>

namespace gradsync::watch {

inline std::uint64_t fnv_1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

// The same as a positive number: `object` of a collective is that of its group's name.
inline std::int64_t nonzero_fnv_1a(std::string_view text) {
  return static_cast<std::int64_t>(fnv_1a(text) >> 1 | 1);
}

}  // namespace gradsync::watch
