// How large the elements of tensors are, by what those who write files call their types.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace gradsync::watch {

// Returns the bytes of one element: of torch's names ("Float", "BFloat16") and of C++'s, as the
// profiler has them of operators ("float", "c10::BFloat16"). Nothing for what is none of these.
std::optional<std::int64_t> element_bytes(std::string_view type);

// Returns the bytes of a tensor of these sizes; -1 where its type is none of these, one is
// negative, or they do not fit.
std::int64_t tensor_bytes(std::string_view type, const std::vector<std::int64_t>& sizes);

// Returns the sum, or -1 where one of the two is.
std::int64_t sum_of_known(std::int64_t a_bytes, std::int64_t b_bytes);

}  // namespace gradsync::watch
