// What a function of the preloaded library calls on: the definition that its caller would have been
// bound to, were the preloaded library not there.
//
// The dynamic linker looks for a caller's symbol first in the program and whatever was loaded for
// all to see; dlsym's RTLD_NEXT does the same, behind the preloaded library. Then it looks in the
// libraries that came along with the caller: in a Python process torch alone sees its
// libnccl.so.2, for modules are loaded with RTLD_LOCAL. The caller's return address leads there. So
// of two copies of a library in one process each keeps its own callers.
//
// The symbols of CUDA's runtime have versions, and a caller is bound to the one it was linked with
// even where all see another. RTLD_NEXT knows of no versions: there the caller's libraries go
// first.
#pragma once

#include <pthread.h>

#include <atomic>

namespace gradsync::watch {

enum class SymbolVersions { No, Yes };

// One per function. Constant-initialized and never destroyed: calls come before and after main.
class NextDefinition {
 public:
  // `libraries`: where to look at last, those that are loaded, for callers that do not name them
  // among what they need, and calls that end in a jump, which seem to come from elsewhere. Ends in
  // null.
  constexpr NextDefinition(const char* name, const char* const* libraries,
                           SymbolVersions versions = SymbolVersions::No)
      : name_(name), libraries_(libraries), versions_(versions) {}

  const char* name() const { return name_; }

  // Returns the definition for a call that returns to `caller`; null where there is none.
  // Any thread. A library that is found stays loaded.   Cost: some us for each new caller, then
  // some ns.
  void* find(const void* caller) noexcept;

 private:
  struct Site {
    std::atomic<const void*> caller{nullptr};
    void* definition = nullptr;  // valid once `caller` is set
  };
  static constexpr int kSites = 8;  // more callers: each of their calls is looked up anew

  void* look_up(const void* caller) const noexcept;
  void keep(const void* caller, void* definition) noexcept;

  const char* name_;
  const char* const* libraries_;
  SymbolVersions versions_;
  Site sites_[kSites];
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;  // of who adds a site
};

}  // namespace gradsync::watch
