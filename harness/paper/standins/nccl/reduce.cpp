#include "harness/paper/standins/nccl/reduce.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <type_traits>

namespace gradsync::paper::nccl {
namespace {

constexpr const char* kTypeNames[] = {"int8",    "uint8",    "int32",       "uint32",
                                      "int64",   "uint64",   "float16",     "float32",
                                      "float64", "bfloat16", "float8_e4m3", "float8_e5m2"};

// The type in which T is summed and multiplied: unsigned for integers, which may then wrap around.
template <typename T>
using Sum = std::conditional_t<std::is_integral_v<T>, std::uint64_t,
                               std::conditional_t<std::is_same_v<T, double>, double, float>>;

// What values of T are compared and divided in.
template <typename T>
using Value =
    std::conditional_t<std::is_integral_v<T> && std::is_signed_v<T>, std::int64_t, Sum<T>>;

template <typename T>
T element(const Part& part, std::size_t index) {
  return static_cast<const T*>(part.data)[index];
}

template <typename T>
T reduced(int op, const std::vector<Part>& parts, std::size_t index) {
  if (op == ncclMin || op == ncclMax) {
    auto best = static_cast<Value<T>>(element<T>(parts[0], index));
    for (const Part& part : parts) {
      const auto value = static_cast<Value<T>>(element<T>(part, index));
      best = op == ncclMin ? std::min(best, value) : std::max(best, value);
    }
    return static_cast<T>(best);
  }
  Sum<T> total(op == ncclProd ? 1 : 0);
  std::uint64_t ranks = 0;
  for (const Part& part : parts) {
    const auto value = static_cast<Sum<T>>(element<T>(part, index));
    ranks += part.times;
    if (op != ncclProd) {
      total += value * static_cast<Sum<T>>(part.times);
    } else {
      for (std::uint64_t i = 0; i < part.times; ++i) total *= value;
    }
  }
  if (op != ncclAvg) return static_cast<T>(total);
  if constexpr (std::is_integral_v<T>) total = static_cast<Sum<T>>(static_cast<T>(total));
  return static_cast<T>(static_cast<Value<T>>(total) / static_cast<Value<T>>(ranks));
}

// Calls `work` with a value of the C++ type of `type`.
template <typename Work>
void with_type(int type, const Work& work) {
  switch (type) {
    case ncclInt8:
      return work(std::int8_t{});
    case ncclUint8:
      return work(std::uint8_t{});
    case ncclInt32:
      return work(std::int32_t{});
    case ncclUint32:
      return work(std::uint32_t{});
    case ncclInt64:
      return work(std::int64_t{});
    case ncclUint64:
      return work(std::uint64_t{});
    case ncclFloat16:
      return work(__half{});
    case ncclFloat32:
      return work(float{});
    case ncclFloat64:
      return work(double{});
    case ncclBfloat16:
      return work(__nv_bfloat16{});
    case 10:
      return work(__nv_fp8_e4m3{});  // in nccl.h since 2.24
    case 11:
      return work(__nv_fp8_e5m2{});
    default:
      return;  // the C interface has refused it
  }
}

}  // namespace

std::size_t width(int type) {
  std::size_t bytes = 0;
  with_type(type, [&](auto value) { bytes = sizeof(value); });
  return bytes;
}

const char* type_name(int type) {
  return kTypeNames[type];
}

const char* op_name(int op) {
  constexpr const char* kNames[] = {"sum", "prod", "max", "min", "avg"};
  return op < ncclNumOps ? kNames[op] : "premulsum";
}

void reduce(int type, int op, const std::vector<Part>& parts, std::size_t count, void* out) {
  with_type(type, [&](auto value) {
    using T = decltype(value);
    for (std::size_t i = 0; i < count; ++i) static_cast<T*>(out)[i] = reduced<T>(op, parts, i);
  });
}

void multiply(int type, const void* scalar, std::size_t count, void* data) {
  with_type(type, [&](auto value) {
    using T = decltype(value);
    const auto factor = static_cast<Sum<T>>(*static_cast<const T*>(scalar));
    auto* elements = static_cast<T*>(data);
    for (std::size_t i = 0; i < count; ++i) {
      elements[i] = static_cast<T>(static_cast<Sum<T>>(elements[i]) * factor);
    }
  });
}

}  // namespace gradsync::paper::nccl
