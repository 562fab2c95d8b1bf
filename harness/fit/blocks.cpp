#include "harness/fit/blocks.h"

#include <algorithm>
#include <map>

namespace gradsync::fit {
namespace {

// Torch counts a block right after it has told of it: the next record of the device has the sum.
Highest highest(const Allocations& allocations, int device, std::int64_t AllocationRecord::*figure,
                bool (*raises)(Action)) {
  Highest most;
  std::size_t last = 0;
  for (std::size_t i = 0; i < allocations.records.size(); ++i) {
    const AllocationRecord& record = allocations.records[i];
    if (record.device != device) continue;
    if (record.*figure > most.bytes) most = {record.*figure, last};
    if (raises(record.action)) last = i;
  }
  return most;
}

void label(std::map<std::uint64_t, std::size_t>& live, std::vector<Block>& blocks,
           const AllocationRecord& record) {
  auto found = live.upper_bound(record.address);
  if (found == live.begin()) return;
  Block& block = blocks[std::prev(found)->second];
  if (record.address < block.address + block.size && !block.holds) block.holds = record.holds;
}

}  // namespace

std::vector<Block> blocks_of(const Allocations& allocations, int device) {
  std::vector<Block> blocks;
  std::map<std::uint64_t, std::size_t> live;  // by address
  for (std::size_t i = 0; i < allocations.records.size(); ++i) {
    const AllocationRecord& record = allocations.records[i];
    if (record.device != device) continue;
    if (record.action == Action::Alloc) {
      live[record.address] = blocks.size();
      blocks.push_back(
          {record.address, record.size, i, allocations.records.size(), record.site, {}});
    } else if (record.action == Action::Free) {
      const auto found = live.find(record.address);
      if (found == live.end()) continue;
      blocks[found->second].freed = i;
      live.erase(found);
    } else if (record.action == Action::Label) {
      label(live, blocks, record);
    }
  }
  return blocks;
}

Highest highest_allocated(const Allocations& allocations, int device) {
  return highest(allocations, device, &AllocationRecord::peak_allocated,
                 [](Action action) { return action == Action::Alloc; });
}

Highest highest_reserved(const Allocations& allocations, int device) {
  return highest(allocations, device, &AllocationRecord::peak_reserved, [](Action action) {
    return action == Action::SegmentAlloc || action == Action::SegmentMap;
  });
}

bool waits_for_streams(const Allocations& allocations, int device) {
  return std::ranges::any_of(allocations.records, [device](const AllocationRecord& record) {
    return record.device == device && record.action == Action::FreeCompleted && record.site > 0;
  });
}

bool has_workspaces(const Allocations& allocations, int device) {
  return std::ranges::any_of(allocations.records, [device](const AllocationRecord& record) {
    return record.device == device && record.action == Action::Label &&
           record.holds == Holds::Workspace;
  });
}

int main_device(const Allocations& allocations) {
  std::map<int, std::int64_t> most;
  for (const AllocationRecord& record : allocations.records) {
    std::int64_t& held = most[record.device];
    held = std::max(held, record.peak_allocated);
  }
  const auto found =
      std::ranges::max_element(most, {}, [](const auto& entry) { return entry.second; });
  return found == most.end() ? 0 : found->first;
}

}  // namespace gradsync::fit
