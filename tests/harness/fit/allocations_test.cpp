// Covers: blocks.cpp, composition.cpp, read_allocations.cpp, recorder/record_file.cpp.
#include <gmock/gmock.h>

#include <fstream>

#include "harness/base/errors.h"
#include "harness/fit/composition.h"
#include "harness/fit/recorder/record_file.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::fit {
namespace {

using test::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

AllocationRecord alloc(std::uint64_t address, std::uint64_t size, std::int64_t time_ns,
                       std::uint32_t site = 0) {
  AllocationRecord record{};
  record.action = Action::Alloc;
  record.address = address;
  record.size = size;
  record.time_ns = time_ns;
  record.site = site;
  return record;
}

AllocationRecord release(std::uint64_t address, std::int64_t time_ns) {
  AllocationRecord record{};
  record.action = Action::Free;
  record.address = address;
  record.time_ns = time_ns;
  return record;
}

AllocationRecord label(std::uint64_t address, Holds holds) {
  AllocationRecord record{};
  record.action = Action::Label;
  record.address = address;
  record.holds = holds;
  return record;
}

// Gives each record the peak of torch's statistics before it, as torch does: what an Alloc adds is
// counted behind it, what a Free takes away before.
Allocations counted(std::vector<AllocationRecord> records) {
  std::int64_t held = 0;
  std::int64_t peak = 0;
  std::map<std::uint64_t, std::uint64_t> sizes;
  for (AllocationRecord& record : records) {
    if (record.action == Action::Free) held -= static_cast<std::int64_t>(sizes[record.address]);
    record.peak_allocated = peak;
    if (record.action != Action::Alloc) continue;
    sizes[record.address] = record.size;
    held += static_cast<std::int64_t>(record.size);
    peak = std::max(peak, held);
  }
  Allocations allocations;
  allocations.records = std::move(records);
  return allocations;
}

// A forward from 100 to 200, a backward to 300, and an optimizer to 400.
Phases one_step() {
  watch::RankEvents rank;
  std::int64_t begin_ns = 0;
  for (const auto kind :
       {watch::EventKind::Forward, watch::EventKind::Backward, watch::EventKind::OptimizerStep}) {
    begin_ns += 100;
    rank.events.emplace_back();
    rank.events.back().kind = kind;
    rank.events.back().start_ns = begin_ns;
    rank.events.back().end_ns = begin_ns + 99;
  }
  return Phases(rank);
}

TEST(Blocks, LiveFromTheirAllocationUntilTheyAreLetGo) {
  const Allocations allocations =
      counted({alloc(1024, 512, 1), alloc(2048, 100, 2), release(1024, 3), alloc(1024, 256, 4)});
  const std::vector<Block> blocks = blocks_of(allocations, 0);
  ASSERT_THAT(blocks, SizeIs(3));
  EXPECT_EQ(blocks[0].freed, 2U);
  EXPECT_EQ(blocks[1].freed, allocations.records.size());
  EXPECT_EQ(blocks[2].size, 256U);
  EXPECT_THAT(blocks_of(allocations, 1), SizeIs(0)) << "another device's";
}

TEST(Blocks, ALabelIsOfTheBlockThatHoldsItsAddress) {
  const Allocations allocations =
      counted({alloc(1024, 512, 1), alloc(2048, 100, 2), label(1536, Holds::Gradient),
               label(1500, Holds::Parameter)});
  const std::vector<Block> blocks = blocks_of(allocations, 0);
  EXPECT_EQ(blocks[0].holds, Holds::Parameter) << "1536 is behind its end";
  EXPECT_FALSE(blocks[1].holds);
}

TEST(Blocks, TheHighestIsAtTheAllocationThatReachedIt) {
  const Allocations allocations = counted(
      {alloc(1, 100, 1), alloc(200, 300, 2), release(200, 3), alloc(600, 50, 4), release(1, 5)});
  const Highest peak = highest_allocated(allocations, 0);
  EXPECT_EQ(peak.bytes, 400);
  EXPECT_EQ(peak.record, 1U);
}

TEST(Composition, IsDecidedByLabelsAndByHowLongABlockLives) {
  Allocations allocations = counted({
      alloc(1000, 10, 50),      // a parameter
      alloc(2000, 20, 110, 1),  // let go in the backward: an activation
      alloc(3000, 40, 120, 2),  // asked for by FSDP
      alloc(4000, 80, 210),     // lives on behind the backward: a gradient
      alloc(5000, 160, 220),    // of this backward alone
      release(5000, 230),
      release(2000, 240),
      release(3000, 250),
      label(1000, Holds::Parameter),
      release(4000, 350),
  });
  allocations.sites[1] = {.module = 7, .line = 3, .function = "forward", .file = "model.py"};
  allocations.sites[2] = {.line = 9, .file = "/x/torch/distributed/fsdp/_fsdp_collectives.py"};
  allocations.modules[7] = {"Linear", "layers.0.fc"};
  const Highest peak = highest_allocated(allocations, 0);
  EXPECT_EQ(peak.record, 4U);
  const std::vector<Block> blocks = blocks_of(allocations, 0);
  std::vector<std::string> told;
  for (const Part& part : composition_at(peak, blocks, allocations, one_step())) {
    told.push_back(std::string(name_of(part.category)) + " " + std::to_string(part.bytes) + " " +
                   part.shares.front().who);
  }
  EXPECT_THAT(
      told, ElementsAre("parameters 10 autograd", "gradients 80 autograd", "activations 20 Linear",
                        "communication 40 _fsdp_collectives.py:9", "other 160 autograd"));
}

TEST(Composition, WhatOutlivesAStepIsNoGradient) {
  Allocations allocations =
      counted({alloc(1000, 10, 210), alloc(2000, 20, 500), release(2000, 510)});
  const std::vector<Part> parts = composition_at(
      highest_allocated(allocations, 0), blocks_of(allocations, 0), allocations, one_step());
  ASSERT_THAT(parts, SizeIs(1));
  EXPECT_EQ(parts[0].category, Category::Other);
}

TEST(Composition, WhatTheAllocatorRoundsUpIsTold) {
  Allocations allocations = counted({alloc(1000, 10, 50), release(1000, 60)});
  const std::vector<Part> parts =
      composition_at({512, 0}, blocks_of(allocations, 0), allocations, one_step());
  ASSERT_THAT(parts, SizeIs(2));
  EXPECT_EQ(parts[1].category, Category::Rounding);
  EXPECT_EQ(parts[1].bytes, 502);
}

TEST(Composition, TheModuleOfABackwardIsWhoseBlockWasLetGoLast) {
  Allocations allocations = counted({alloc(1000, 10, 110, 1), alloc(2000, 10, 120, 2),
                                     release(2000, 210), alloc(3000, 99, 220), release(1000, 230)});
  allocations.sites[1] = {.module = 7};
  allocations.sites[2] = {.module = 8};
  allocations.modules[7] = {"Linear", "first"};
  allocations.modules[8] = {"Linear", "second"};
  const std::vector<Block> blocks = blocks_of(allocations, 0);
  EXPECT_EQ(module_at(3, blocks, allocations), "second");
  EXPECT_EQ(module_at(0, blocks, allocations), "first");
}

TEST(RecordFile, IsReadAsItWasWrittenAcrossChunks) {
  const TemporaryFolder folder;
  const std::string path = folder.file("allocations-42.records");
  constexpr int kRecords = kRecordsPerChunk + 5;
  {
    RecordFile file;
    ASSERT_TRUE(file.open(path));
    for (int i = 0; i < kRecords; ++i) file.append(alloc(static_cast<std::uint64_t>(i), 1, 0));
  }
  std::ofstream(folder.file("allocations-42.names")) << "site\t3\t77\t12\tforward\t/x/model.py\n"
                                                     << "module\t77\tLinear\tlayers.0\n"
                                                     << "oom\tCUDA out of memory.\\nTried\n"
                                                     << "cut off";
  const std::vector<Allocations> all = read_allocations(folder.path());
  ASSERT_THAT(all, SizeIs(1));
  ASSERT_THAT(all[0].records, SizeIs(kRecords));
  EXPECT_EQ(all[0].records.back().address, static_cast<std::uint64_t>(kRecords - 1));
  EXPECT_GT(all[0].records.back().time_ns, 0);
  EXPECT_EQ(all[0].lost, 0);
  EXPECT_EQ(all[0].sites.at(3).line, 12);
  EXPECT_EQ(all[0].modules.at(77).name, "layers.0");
  EXPECT_EQ(all[0].out_of_memory, "CUDA out of memory.\nTried");
}

TEST(RecordFile, OfAnotherKindIsRefusedByName) {
  const TemporaryFolder folder;
  std::ofstream(folder.file("allocations-1.records")) << std::string(200, 'x');
  try {
    read_allocations(folder.path());
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("allocations-1.records: expected a file of recorded"));
  }
}

}  // namespace
}  // namespace gradsync::fit
