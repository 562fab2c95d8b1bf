// What a GPU of paper says of itself, by the numbers that the runtime and the driver share
// (cudaDeviceAttr and CUdevice_attribute).
#pragma once

namespace gradsync::paper {

// Returns an attribute of a visible device; 0 is a feature that it has not. A limit is never 0:
// kernels' launchers divide by some, and loop up to others.
int attribute(int device, int number);

}  // namespace gradsync::paper
