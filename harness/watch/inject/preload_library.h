// The two libraries that are put into a job. An installed program comes with some that are built
// for torch's wheels; else they are compiled on first use against the job's own torch, and kept for
// the next time.
//
// What decides the build of the latter: torch's version and library, the compiler, the sources.
#pragma once

#include <optional>
#include <string>

#include "harness/launch/compile_on_use.h"
#include "harness/watch/inject/job_torch.h"

namespace gradsync::watch {

struct PreloadLibrary {
  std::string loader;   // for LD_PRELOAD
  std::string watcher;  // which the loader loads once torch is there
};

// Returns those beside this program that are built for a torch with this minor version and this
// ABI; nothing where it has none, as a checkout's has not. The second has the name shipped_as().
std::string shipped_as(const JobTorch& torch);
std::optional<PreloadLibrary> shipped_library(const JobTorch& torch);

// Where compiled libraries are kept: $XDG_CACHE_HOME/gradsync/watch or ~/.cache/gradsync/watch; ""
// where neither variable is set.
std::string preload_cache();

// Compiles the first of them into `folder`, from the sources in `source_dir`, and returns its path.
// It needs no torch.   Cost: some seconds.   Errors: EnvironmentError where there is no compiler or
// it refuses.
std::string compile_loader(const std::string& source_dir, const std::string& folder);

class PreloadBuild {
 public:
  // For `torch`, from the sources in `source_dir` (the root of the checkout), kept in `cache`.
  // Errors: EnvironmentError where there is no C++ compiler: $CXX, c++, g++ or clang++.
  PreloadBuild(JobTorch torch, std::string source_dir, const std::string& cache);

  // Returns the libraries of an earlier build; nothing where there are none.
  std::optional<PreloadLibrary> find() const;

  // Compiles them. Cost: about 20 s.   Errors: EnvironmentError with the compiler's first error, or
  // where `cache` cannot be written.
  PreloadLibrary build() const;

 private:
  void compile(const std::string& folder) const;

  JobTorch torch_;
  std::string source_dir_;
  std::string compiler_;
  launch::Build build_;
};

}  // namespace gradsync::watch
