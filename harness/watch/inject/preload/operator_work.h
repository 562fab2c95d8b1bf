// What the operators of torch do in this process, in each step: how often each ran, the bytes of
// its outputs, its floating point operations; copies between types or devices, and the memory that
// tensors asked for. No torch.
//
// It counts in the thread that steps an optimizer, and in every thread that works at a backward.
// It leaves out gloo's threads and data loaders, whose work may fall into any step, and the Python
// hook, by torch's own switch of observers for a thread. Counting begins when
// the first step has ended, and ends after as many steps as kWorkVariable says; without it nothing
// is counted, and torch calls back for no operator.
#pragma once

#include <cstdint>

namespace gradsync::watch {

// In the environment of a process: the number of steps to count.
inline constexpr const char* kWorkVariable = "GRADSYNC_WATCH_WORK";
// Set: which lines of the job each call comes from, too. The Python hook finds them.
inline constexpr const char* kWorkLinesVariable = "GRADSYNC_WATCH_WORK_LINES";

// Names of what is counted beside operators.
inline constexpr const char* kAllocations = "allocations";
inline constexpr const char* kCopyPrefix = "copy ";  // "copy Float to BFloat16", "copy cpu to cuda"

// The outermost optimizer of this thread ends a step: records what was done since the last one.
void write_work_of_step() noexcept;

void count_allocation(std::int64_t bytes) noexcept;

// In the child: another thread of the parent may have held the lock.
void forget_work() noexcept;

}  // namespace gradsync::watch
