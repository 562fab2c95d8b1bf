// Which device memory a copy, a fill or a collective has written. All else would hold what kernels
// computed, and here they compute nothing: a job that reads it and decides by it goes another way
// than on a GPU. The first read at each line of a Python job is said on stderr, with the line.
#pragma once

#include <cstddef>

namespace gradsync::paper {

// A copy of either direction: what it reads may be unwritten, and then what it writes is, too.
void note_copy(const void* to, const void* from, std::size_t bytes);

void note_written(const void* to, std::size_t bytes);
void forget_written(const void* start, std::size_t bytes);

// Torch's allocator gives these bytes to a new block, which reads as zeros again. The recorder of
// that allocator (harness/fit/recorder) finds it by this name; without it the block has old values.
extern "C" void gradsync_paper_new_block(void* start, std::size_t bytes);

}  // namespace gradsync::paper
