#include "harness/launch/visible_gpus.h"

#include <gmock/gmock.h>

#include <string>

#include "tests/models/temporary_folder.h"

namespace gradsync::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

GpuInfo gpu(unsigned index, const char* name, const char* uuid) {
  GpuInfo info;
  info.index = index;
  info.name = name;
  info.uuid = uuid;
  return info;
}

const std::vector<GpuInfo> kAlike{gpu(0, "H100", "GPU-a0"), gpu(1, "H100", "GPU-b1"),
                                  gpu(2, "H100", "GPU-b2"), gpu(3, "H100", "GPU-c3")};
const std::vector<GpuInfo> kMixed{gpu(0, "T4", "GPU-a0"), gpu(1, "H100", "GPU-b1")};

Environment visible(const std::string& list) {
  return {{"CUDA_VISIBLE_DEVICES", list}};
}

std::vector<std::string> uuids(const std::vector<GpuInfo>& gpus, const Environment& environment,
                               int ranks = 8) {
  std::vector<std::string> found;
  for (const GpuInfo& each : gpus_of_ranks(gpus, environment, ranks)) found.push_back(*each.uuid);
  return found;
}

TEST(VisibleGpus, AreTheFirstOfThoseThatCudaShows) {
  EXPECT_THAT(uuids(kAlike, {}), ElementsAre("GPU-a0", "GPU-b1", "GPU-b2", "GPU-c3"));
  EXPECT_THAT(uuids(kAlike, {}, 2), ElementsAre("GPU-a0", "GPU-b1"));
  EXPECT_THAT(uuids(kAlike, visible("3, 1")), ElementsAre("GPU-c3", "GPU-b1"));
  EXPECT_THAT(uuids(kAlike, visible("3,1"), 1), ElementsAre("GPU-c3"));
  EXPECT_THAT(uuids(kAlike, visible("GPU-c,GPU-b2")), ElementsAre("GPU-c3", "GPU-b2"));
}

// As CUDA does: an entry that is none ends the list.
TEST(VisibleGpus, EndAtTheFirstThatIsNone) {
  EXPECT_THAT(uuids(kAlike, visible("2,-1,0")), ElementsAre("GPU-b2"));
  EXPECT_THAT(uuids(kAlike, visible("1,9,0")), ElementsAre("GPU-b1"));
  EXPECT_THAT(uuids(kAlike, visible("GPU-x,GPU-a0")), IsEmpty());
  EXPECT_THAT(uuids(kAlike, visible("")), IsEmpty());
}

TEST(VisibleGpus, AnInstanceIsFoundByItsParent) {
  std::vector<GpuInfo> gpus = kAlike;
  gpus[2].mig_instances = {"MIG-77", "MIG-88"};
  EXPECT_THAT(uuids(gpus, visible("MIG-88")), ElementsAre("GPU-b2"));
  EXPECT_THAT(uuids(gpus, visible("MIG-GPU-b2/1/0")), ElementsAre("GPU-b2"));
}

TEST(VisibleGpus, OfSeveralModelsOnlyAnOrderOrUuidsTell) {
  for (const Environment& unclear : {Environment{}, visible("0"), visible("GPU-a0,1")}) {
    const auto doubt = doubt_of_order(kMixed, unclear);
    ASSERT_TRUE(doubt);
    EXPECT_THAT(doubt->remedy, HasSubstr("CUDA_DEVICE_ORDER=PCI_BUS_ID"));
    EXPECT_THAT(uuids(kMixed, unclear, 1), ElementsAre("GPU-a0", "GPU-b1"));
  }
  Environment ordered = visible("1");
  ordered["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";
  EXPECT_FALSE(doubt_of_order(kMixed, ordered));
  EXPECT_THAT(uuids(kMixed, ordered), ElementsAre("GPU-b1"));
  EXPECT_FALSE(doubt_of_order(kMixed, visible("GPU-b1")));
  EXPECT_THAT(uuids(kMixed, visible("GPU-b1")), ElementsAre("GPU-b1"));
  EXPECT_FALSE(doubt_of_order(kAlike, visible("1")));
}

TEST(FindRocm, NamesItWhereItsDriverIs) {
  const gradsync::test::TemporaryFolder devices;
  EXPECT_FALSE(find_rocm(devices.path()));
  devices.write("kfd", "");
  const auto found = find_rocm(devices.path());
  ASSERT_TRUE(found);
  EXPECT_THAT(found->what, HasSubstr("ROCm is not supported by --device cuda"));
  EXPECT_THAT(found->remedy, HasSubstr("librccl.so.1"));
}

}  // namespace
}  // namespace gradsync::launch
