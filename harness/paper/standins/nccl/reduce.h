// The arithmetic of NCCL's reductions, in host memory.
//
// Integers wrap around. float16, bfloat16 and both float8 are added in float and rounded once;
// NCCL rounds them at each rank. A mean is the sum over the number of ranks, of integers without
// the rest.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gradsync::paper::nccl {

// Returns the bytes of one element. `type` is one of NCCL's.
std::size_t width(int type);
// "float32", "sum"; an op from ncclNumOps on is "premulsum".
const char* type_name(int type);
const char* op_name(int op);

// What a rank gives, and how many ranks give the same.
struct Part {
  const void* data;
  std::uint64_t times;
};

// Writes the reduction of `count` elements of all parts. `out` may be one of them.
void reduce(int type, int op, const std::vector<Part>& parts, std::size_t count, void* out);

// Multiplies each of `count` elements by the one at `scalar`, in place.
void multiply(int type, const void* scalar, std::size_t count, void* data);

}  // namespace gradsync::paper::nccl
