#include "harness/launch/near_cpus.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/models/temporary_folder.h"

namespace gradsync::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class NearCpus : public testing::Test {
 protected:
  void list_cpus(const std::string& device, const std::string& list) {
    const std::string folder = folder_.file("bus/pci/devices/" + device);
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/local_cpulist") << list << "\n";
  }
  std::optional<std::vector<int>> near(const std::string& pci_bus_id) const {
    return cpus_near(pci_bus_id, folder_.path());
  }

 private:
  gradsync::test::TemporaryFolder folder_;
};

TEST_F(NearCpus, AreThoseThatTheKernelCallsLocal) {
  list_cpus("0000:c1:00.0", "2-4,8");
  EXPECT_THAT(*near("00000000:C1:00.0"), ElementsAre(2, 3, 4, 8));
  EXPECT_FALSE(near("00000000:01:00.0"));
  list_cpus("0000:01:00.0", "");
  EXPECT_FALSE(near("00000000:01:00.0"));
}

TEST_F(NearCpus, OnlyWhereNoneMayBeUsedAreThereWarnings) {
  GpuInfo gpu;
  gpu.index = 5;
  const std::vector<int> near{8, 9};
  const auto far = examine_nearness(gpu, {0, 1}, near);
  ASSERT_TRUE(far);
  EXPECT_EQ(far->severity, Finding::Severity::Warn);
  EXPECT_EQ(far->what,
            "GPU 5 is near CPU 8, and ranks may use only CPUs of another NUMA node, such as CPU 0");
  EXPECT_THAT(far->remedy, HasSubstr("numactl"));
  EXPECT_FALSE(examine_nearness(gpu, {0, 9}, near));
  EXPECT_FALSE(examine_nearness(gpu, {0, 1}, std::nullopt));
}

}  // namespace
}  // namespace gradsync::launch
