// Where the driver's functions are found by name.
#pragma once

namespace gradsync::paper {

// Returns the newest version of a driver's function: cuMemAlloc_v2 for "cuMemAlloc". Null where the
// stand-in for the driver has none of that name, answered or refused.
void* driver_entry(const char* name);

}  // namespace gradsync::paper
