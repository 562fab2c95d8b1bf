#include "harness/watch/read/foreign/element_bytes.h"

#include <algorithm>
#include <array>
#include <utility>

namespace gradsync::watch {
namespace {

constexpr std::array<std::pair<std::string_view, std::int64_t>, 36> kTypes{{
    {"Float", 4},
    {"Double", 8},
    {"Half", 2},
    {"BFloat16", 2},
    {"Long", 8},
    {"Int", 4},
    {"Short", 2},
    {"Char", 1},
    {"Byte", 1},
    {"Bool", 1},
    {"ComplexHalf", 4},
    {"ComplexFloat", 8},
    {"ComplexDouble", 16},
    {"Float8_e4m3fn", 1},
    {"Float8_e5m2", 1},
    {"UInt16", 2},
    {"UInt32", 4},
    {"UInt64", 8},
    {"float", 4},
    {"double", 8},
    {"c10::Half", 2},
    {"c10::BFloat16", 2},
    {"long int", 8},
    {"long", 8},
    {"int", 4},
    {"short int", 2},
    {"signed char", 1},
    {"unsigned char", 1},
    {"bool", 1},
    {"c10::complex<float>", 8},
    {"c10::complex<double>", 16},
    {"c10::Float8_e4m3fn", 1},
    {"c10::Float8_e5m2", 1},
    {"short unsigned int", 2},
    {"unsigned int", 4},
    {"long unsigned int", 8},
}};

}  // namespace

std::optional<std::int64_t> element_bytes(std::string_view type) {
  const auto* const known =
      std::ranges::find(kTypes, type, &std::pair<std::string_view, std::int64_t>::first);
  if (known == kTypes.end()) return std::nullopt;
  return known->second;
}

std::int64_t tensor_bytes(std::string_view type, const std::vector<std::int64_t>& sizes) {
  std::int64_t bytes = element_bytes(type).value_or(-1);
  if (bytes < 0) return -1;
  for (const std::int64_t size : sizes) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return -1;
  }
  return bytes;
}

std::int64_t sum_of_known(std::int64_t a_bytes, std::int64_t b_bytes) {
  std::int64_t sum = 0;
  if (a_bytes < 0 || b_bytes < 0 || __builtin_add_overflow(a_bytes, b_bytes, &sum)) return -1;
  return sum;
}

}  // namespace gradsync::watch
