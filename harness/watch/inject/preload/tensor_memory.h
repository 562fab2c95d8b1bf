// What the CPU tensors of this process hold, told to its recorder as it grows. No torch.
#pragma once

namespace gradsync::watch {

// Looks whether tensors are still counted: the job may have put an allocator of its own before the
// one that counts. Call where an optimizer steps, on the thread that steps it.
void check_tensor_count() noexcept;

}  // namespace gradsync::watch
