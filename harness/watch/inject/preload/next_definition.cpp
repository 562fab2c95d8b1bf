#include "harness/watch/inject/preload/next_definition.h"

#include <dlfcn.h>

namespace gradsync::watch {
namespace {

// Returns null where the library is not loaded. What is found stays loaded: who called it may go
// on.
void* in_loaded(const char* library, const char* name) {
  void* handle = ::dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  return handle == nullptr ? nullptr : ::dlsym(handle, name);
}

// In the library that `caller` lies in, or in those that it needs.
void* in_library_of(const void* caller, const char* name) {
  Dl_info info{};
  if (::dladdr(caller, &info) == 0 || info.dli_fname == nullptr) return nullptr;
  return in_loaded(info.dli_fname, name);
}

}  // namespace

void* NextDefinition::find(const void* caller) noexcept {
  for (const Site& site : sites_) {
    const void* known = site.caller.load(std::memory_order_acquire);
    if (known == caller) return site.definition;
    if (known == nullptr) break;
  }
  void* definition = look_up(caller);
  if (definition != nullptr) keep(caller, definition);
  return definition;
}

void* NextDefinition::look_up(const void* caller) const noexcept {
  void* definition = nullptr;
  if (versions_ == SymbolVersions::Yes) definition = in_library_of(caller, name_);
  if (definition == nullptr) definition = ::dlsym(RTLD_NEXT, name_);
  if (definition == nullptr) definition = in_library_of(caller, name_);
  for (const char* const* library = libraries_; definition == nullptr && *library; ++library) {
    definition = in_loaded(*library, name_);
  }
  return definition;
}

// Where another thread is at it, or was when this process was forked, the next call tries again.
void NextDefinition::keep(const void* caller, void* definition) noexcept {
  if (::pthread_mutex_trylock(&mutex_) != 0) return;
  for (Site& site : sites_) {
    const void* known = site.caller.load(std::memory_order_relaxed);
    if (known == caller) break;
    if (known != nullptr) continue;
    site.definition = definition;
    site.caller.store(caller, std::memory_order_release);
    break;
  }
  ::pthread_mutex_unlock(&mutex_);
}

}  // namespace gradsync::watch
