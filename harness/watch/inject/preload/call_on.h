// The call of a function that the preloaded library stands before.
#pragma once

#include "harness/watch/inject/preload/nccl_calls.h"
#include "harness/watch/inject/preload/next_definition.h"

namespace gradsync::watch {

// Calls the definition that `caller` would have been bound to, and returns its result; `undefined`,
// with a fault in the file, where no library that is loaded has one.
template <auto undefined, typename... Arguments>
decltype(undefined) call_on(NextDefinition& next, const void* caller, Arguments... arguments) {
  using Function = decltype(undefined) (*)(Arguments...);
  const auto function = reinterpret_cast<Function>(next.find(caller));
  if (function != nullptr) return function(arguments...);
  record_undefined(next.name());
  return undefined;
}

}  // namespace gradsync::watch
