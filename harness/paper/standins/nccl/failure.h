// How NCCL of paper fails: one exception that carries NCCL's result and a sentence.
//
// Everything below the C interface throws Failure. The C interface catches it (answer), keeps the
// sentence for ncclGetLastError, prints it as NCCL prints its warnings, and returns the result.
#pragma once

#include <nccl.h>

#include <exception>
#include <sstream>
#include <string>

namespace gradsync::paper::nccl {

struct Failure : std::exception {
  // The sentence is the parts one after the other.
  template <typename... Parts>
  explicit Failure(ncclResult_t code, const Parts&... parts) : result(code) {
    std::ostringstream sentence;
    (sentence << ... << parts);
    text = sentence.str();
  }
  const char* what() const noexcept override { return text.c_str(); }

  ncclResult_t result;
  std::string text;
};

// Keeps the sentence as the last error of this process; a group that this thread has open fails.
void record(const Failure& failure);

// Returns the sentence that was recorded last, or "". The memory is never freed.
const char* last_error();

// Returns what `work` comes to: ncclSuccess, or the result of the failure that it threw.
template <typename Work>
ncclResult_t answer(const Work& work) {
  try {
    work();
    return ncclSuccess;
  } catch (const Failure& failure) {
    record(failure);
    return failure.result;
  } catch (const std::exception& error) {
    record(Failure(ncclSystemError, error.what()));
    return ncclSystemError;
  }
}

}  // namespace gradsync::paper::nccl
