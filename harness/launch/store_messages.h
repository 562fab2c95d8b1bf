// How ranks find rank 0's store: rank 0 tells the launcher where it is, and this the others. With
// their lists of fields, since each reader of a rank's words adds its own to them.
#pragma once

#include <cstdint>

#include "harness/base/fields.h"

namespace gradsync::launch {

struct StoreOpened {  // rank 0 to launcher
  std::uint16_t port = 0;
};
constexpr auto fields_of(const StoreOpened*) {
  return std::tuple{constant("event", "store"), field("port", &StoreOpened::port)};
}

struct StorePort {  // launcher to every other rank
  std::uint16_t port = 0;
};
constexpr auto fields_of(const StorePort*) {
  return std::tuple{constant("say", "store"), field("port", &StorePort::port)};
}

}  // namespace gradsync::launch
