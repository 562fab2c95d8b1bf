// GPUs of paper, from outside: the libraries that stand in for CUDA's, built for a torch, and what
// a process needs in its environment to have them.
//
// torch's own CUDA build runs over them without a GPU: its host code, its caching allocator, its
// streams, its autograd and its ProcessGroupNCCL are real; kernels go nowhere. Allocations,
// reserved bytes, out of memory, collectives, their sizes and their order are what a GPU would see.
// Values and times are not.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/paper/gpu_models.h"

namespace gradsync::paper {

// Errors: ConfigError where `on`, the value of --on, names no GPUs.
void require_gpus(const std::string& on);

// Returns whether two values of --on name the same GPUs; "" names none.
bool are_same(const std::string& gpus, const std::string& others);

// Returns the library for LD_PRELOAD, which brings the others along: from the cache
// (launch::build_cache) or, on first use, compiled from the sources that come with the program.
// `torch`: folder with include/ and lib/.
// Errors: EnvironmentError where that torch has no CUDA, its headers or a compiler are missing, or
// there is no cache that can be written.   Cost: half a minute on first use.
std::string build_standins(const std::string& torch);

// Returns the folder with CUDA's headers for that torch: of the packages beside it, or of an
// installed toolkit.   Errors: EnvironmentError where there is none.
std::string cuda_headers(const std::string& torch);

// Returns whether this process itself was given GPUs of paper.
bool are_given();

// Returns the variables of a process that is to have `gpus` ("8xh100").
std::vector<std::pair<std::string, std::string>> environment_of(const std::string& library,
                                                                const std::string& gpus);

}  // namespace gradsync::paper
