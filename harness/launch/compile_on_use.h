// Shared libraries that are compiled on the machine that uses them, on first use, and kept for the
// next time: what they must fit (a torch, its CUDA) is known no earlier.
//
// Each build lies in a folder of its own, whose name is made of everything that decides what is
// compiled. The folder appears by renaming a finished one, so that several programs may begin at
// once.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace gradsync::launch {

using Words = std::vector<std::string>;

// Returns the C++ compiler of this machine: $CXX, c++, g++ or clang++.
// Errors: EnvironmentError where there is none; `what` says what it is needed for.
std::string find_compiler(const std::string& what);

// Returns where builds of that kind are kept: $XDG_CACHE_HOME/gradsync/KIND, or
// ~/.cache/gradsync/KIND; "" where neither variable is set.
std::string build_cache(const std::string& kind);

// Returns what tells one build of an installed file from another: its path, size and time.
std::string file_identity(const std::string& path);

// Returns the text of these files of the tree at `source_dir`, and in turn of what they include of
// the tree. Errors: EnvironmentError where one is missing.
std::string text_of_sources(const std::string& source_dir, const Words& paths);

// Runs a compiler. Blocks until it ends. Errors: EnvironmentError with its first error; `what` says
// what cannot be built, and `remedy` what can be done without it.
void compile(const Words& command, const std::string& what, const std::string& remedy);

class Build {
 public:
  // `name` and all of `made_of` name the folder below `cache`.
  Build(const std::string& cache, const std::string& name, std::string_view made_of);

  const std::string& folder() const { return folder_; }

  // True where every one of these files is in the folder.
  bool has(const Words& files) const;

  // Lets `fill` write the files into a temporary folder, then renames that.
  // Errors: EnvironmentError where the cache cannot be written; those of `fill`.
  void make(const std::function<void(const std::string& temporary)>& fill,
            const Words& files) const;

 private:
  std::string folder_;
};

}  // namespace gradsync::launch
