// How ranks find rank 0's store: rank 0 tells the launcher where it is, and this the others. With
// their lists of fields, since each reader of a rank's words adds its own to them.
#pragma once

#include <cstdint>

#include "harness/base/messages.h"

namespace gradsync::launch {

struct StoreOpened {  // rank 0 to launcher
  std::uint16_t port = 0;
};
GRADSYNC_MESSAGE(StoreOpened, "event", "store", port)

struct StorePort {  // launcher to every other rank
  std::uint16_t port = 0;
};
GRADSYNC_MESSAGE(StorePort, "say", "store", port)

}  // namespace gradsync::launch
