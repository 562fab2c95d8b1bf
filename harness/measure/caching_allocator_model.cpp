#include "harness/measure/caching_allocator_model.h"

#include <algorithm>
#include <iterator>

#include "harness/base/errors.h"

namespace gradsync::measure {

using Model = CachingAllocatorModel;

namespace {

constexpr std::int64_t kGap = Model::kMinBlockSize;  // so that blocks of two segments never touch

std::int64_t round_up(std::int64_t bytes, std::int64_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

std::int64_t segment_bytes(std::int64_t bytes) {
  if (bytes <= Model::kSmallSize) return Model::kSmallBuffer;
  if (bytes < Model::kMinLargeAlloc) return Model::kLargeBuffer;
  return round_up(bytes, Model::kRoundLarge);
}

bool should_split(std::int64_t remaining_bytes, bool small) {
  return small ? remaining_bytes >= Model::kMinBlockSize : remaining_bytes > Model::kSmallSize;
}

}  // namespace

void Model::Gauge::add(std::int64_t bytes) {
  now += bytes;
  peak = std::max(peak, now);
}

bool Model::allocate(std::uint64_t id, std::int64_t bytes) {
  GRADSYNC_CHECK(bytes, >, 0);
  GRADSYNC_CHECK(used_.count(id), ==, 0U);
  const std::int64_t rounded = round_up(bytes, kMinBlockSize);
  const bool small = rounded <= kSmallSize;
  auto block = best_fit(rounded, small);
  if (!block) block = new_segment(rounded, small);
  if (!block) {
    release_unused_segments();
    block = new_segment(rounded, small);
  }
  if (!block) return false;
  split(*block, rounded);
  (*block)->second.used = true;
  used_[id] = *block;
  allocated_.add((*block)->second.bytes);
  return true;
}

void Model::free(std::uint64_t id) {
  const auto found = used_.find(id);
  GRADSYNC_CHECK(found != used_.end(), ==, true);
  auto block = found->second;
  used_.erase(found);
  block->second.used = false;
  allocated_.add(-block->second.bytes);
  const auto next = after(block);
  if (next && !(*next)->second.used) {
    take_from_pool(*next);
    absorb(block, *next);
  }
  const auto previous = before(block);
  if (previous && !(*previous)->second.used) {
    take_from_pool(*previous);
    absorb(*previous, block);
    block = *previous;
  }
  put_in_pool(block);
}

void Model::reset_peak() {
  allocated_.peak = allocated_.now;
  reserved_.peak = reserved_.now;
}

void Model::put_in_pool(Iterator block) {
  pool(block->second.small).emplace(block->second.bytes, block->first);
}

void Model::take_from_pool(Iterator block) {
  pool(block->second.small).erase({block->second.bytes, block->first});
}

std::optional<Model::Iterator> Model::best_fit(std::int64_t bytes, bool small) {
  const auto found = pool(small).lower_bound({bytes, 0});
  if (found == pool(small).end()) return std::nullopt;
  const auto block = blocks_.find(found->second);
  take_from_pool(block);
  return block;
}

std::optional<Model::Iterator> Model::new_segment(std::int64_t bytes, bool small) {
  const std::int64_t segment = segment_bytes(bytes);
  if (limit_bytes_ && reserved_.now + segment > *limit_bytes_) return std::nullopt;
  reserved_.add(segment);
  return blocks_.emplace(lowest_address(segment), Block{segment, false, small}).first;
}

std::int64_t Model::lowest_address(std::int64_t segment_bytes) const {
  const auto behind = [](const auto& block) { return block.first + block.second.bytes + kGap; };
  if (!has_holes_) return blocks_.empty() ? 0 : behind(*blocks_.rbegin());
  std::int64_t free_from = 0;
  for (const auto& block : blocks_) {
    if (free_from + segment_bytes + kGap <= block.first) break;
    free_from = behind(block);
  }
  return free_from;
}

void Model::release_unused_segments() {
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    if (block->second.used || before(block) || after(block)) {
      ++block;
      continue;
    }
    take_from_pool(block);
    reserved_.add(-block->second.bytes);
    has_holes_ = true;
    block = blocks_.erase(block);
  }
}

void Model::split(Iterator block, std::int64_t bytes) {
  const std::int64_t remaining = block->second.bytes - bytes;
  if (!should_split(remaining, block->second.small)) return;
  block->second.bytes = bytes;
  put_in_pool(
      blocks_.emplace(block->first + bytes, Block{remaining, false, block->second.small}).first);
}

std::optional<Model::Iterator> Model::before(Iterator block) {
  if (block == blocks_.begin()) return std::nullopt;
  const auto previous = std::prev(block);
  if (previous->first + previous->second.bytes != block->first) return std::nullopt;
  return previous;
}

std::optional<Model::Iterator> Model::after(Iterator block) {
  const auto next = std::next(block);
  if (next == blocks_.end() || block->first + block->second.bytes != next->first) {
    return std::nullopt;
  }
  return next;
}

void Model::absorb(Iterator first, Iterator second) {
  first->second.bytes += second->second.bytes;
  blocks_.erase(second);
}

}  // namespace gradsync::measure
