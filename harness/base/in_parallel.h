// The same work on many things that have nothing to do with each other, on all cores.
#pragma once

#include <algorithm>
#include <cstddef>
#include <future>
#include <thread>
#include <vector>

namespace gradsync {

// Calls work(begin, end) for parts that together are 0 to `count`, none of them under `least`
// things, some of them at the same time. Blocks until all have returned. Errors: that of the first
// part that has one.
template <typename Work>
void in_parallel(std::size_t count, std::size_t least, const Work& work) {
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  const std::size_t part = std::max(least, (count + cores - 1) / cores);
  std::vector<std::future<void>> running;
  for (std::size_t begin = 0; begin < count; begin += part) {
    const std::size_t end = std::min(begin + part, count);
    // Where the system gives no thread, it runs in get().
    running.push_back(std::async(std::launch::async | std::launch::deferred,
                                 [&work, begin, end] { work(begin, end); }));
  }
  for (const auto& each : running) each.wait();
  for (auto& each : running) each.get();
}

}  // namespace gradsync
