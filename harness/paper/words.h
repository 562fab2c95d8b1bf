// What a result of GPUs of paper says of itself.
#pragma once

namespace gradsync::paper {

inline constexpr const char* kGpusField = "gpus_of_paper";  // a file's, of "8xh100"
inline constexpr const char* kNothingComputed = "GPUs of paper: nothing was computed or timed";

}  // namespace gradsync::paper
