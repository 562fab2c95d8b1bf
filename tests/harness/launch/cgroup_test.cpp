// Limits of control groups of either version, read from folders that look like a machine's.
#include "harness/launch/cgroup.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/models/temporary_folder.h"

namespace gradsync::launch {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

// A machine with both versions: the controllers of cpu and memory are version 1's, as on many hosts
// of containers.
class VersionOne : public ::testing::Test {
 protected:
  VersionOne() {
    root.write("proc/self/mountinfo",
               "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
               "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup "
               "rw,cpu,cpuacct\n"
               "36 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
               "40 31 0:36 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    root.write("proc/self/cgroup",
               "4:memory:/job\n2:cpu,cpuacct:/job/task\n1:cpuset:/elsewhere\n0::/\n");
  }
  void cpu(const std::string& group, const std::string& quota, const std::string& throttled_ns) {
    const std::string folder = "sys/fs/cgroup/cpu,cpuacct" + group;
    root.write(folder + "/cpu.cfs_quota_us", quota + "\n");
    root.write(folder + "/cpu.cfs_period_us", "100000\n");
    root.write(folder + "/cpu.stat",
               "nr_periods 20\nnr_throttled 4\nthrottled_time " + throttled_ns + "\n");
  }
  void memory(const std::string& group, std::int64_t limit, std::int64_t used, std::int64_t files) {
    const std::string folder = "sys/fs/cgroup/memory" + group;
    root.write(folder + "/memory.limit_in_bytes", std::to_string(limit) + "\n");
    root.write(folder + "/memory.usage_in_bytes", std::to_string(used) + "\n");
    root.write(folder + "/memory.stat",
               "cache 5\ninactive_file 1\ntotal_inactive_file " + std::to_string(files) + "\n");
  }
  const test::TemporaryFolder root;
};

TEST_F(VersionOne, HasNoLimitWhereNoneIsSet) {
  cpu("/job/task", "-1", "0");
  cpu("/job", "-1", "0");
  memory("/job", 9223372036854771712, 5 * kMiB, 0);
  const Cgroups groups(root.path());
  EXPECT_FALSE(groups.cpu_quota());
  EXPECT_EQ(groups.throttled_s(), 0);
  EXPECT_FALSE(groups.memory_limit_bytes());
  EXPECT_FALSE(groups.memory_left_bytes());
}

TEST_F(VersionOne, TheLowestLimitOfAGroupAndThoseAboveItHolds) {
  cpu("/job/task", "150000", "250000000");
  cpu("/job", "50000", "1500000000");
  cpu("", "-1", "0");
  memory("/job", 300 * kMiB, 250 * kMiB, 100 * kMiB);
  memory("", 200 * kMiB, 190 * kMiB, 20 * kMiB);
  const Cgroups groups(root.path());
  EXPECT_EQ(groups.cpu_quota(), 0.5);
  EXPECT_DOUBLE_EQ(groups.throttled_s().value(), 1.75);
  EXPECT_EQ(groups.memory_limit_bytes(), 200 * kMiB);
  EXPECT_EQ(groups.memory_left_bytes(), 30 * kMiB);
}

TEST(VersionTwo, IsReadWhereTheOtherHasNoController) {
  const test::TemporaryFolder root;
  root.write("proc/self/mountinfo", "26 23 0:24 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  root.write("proc/self/cgroup", "0::/kubepods/pod7\n");
  const std::string pod = "sys/fs/cgroup/kubepods/pod7/";
  root.write(pod + "cpu.max", "25000 50000\n");
  root.write(pod + "cpu.stat", "usage_usec 77\nnr_throttled 3\nthrottled_usec 1250000\n");
  root.write(pod + "memory.max", "max\n");
  root.write("sys/fs/cgroup/kubepods/cpu.max", "max 100000\n");
  root.write("sys/fs/cgroup/kubepods/memory.max", "1073741824\n");
  root.write("sys/fs/cgroup/kubepods/memory.current", "536870912\n");
  root.write("sys/fs/cgroup/kubepods/memory.stat", "anon 1\ninactive_file 268435456\n");
  const Cgroups groups(root.path());
  EXPECT_EQ(groups.cpu_quota(), 0.5);
  EXPECT_EQ(groups.throttled_s(), 1.25);
  EXPECT_EQ(groups.memory_limit_bytes(), 1024 * kMiB);
  EXPECT_EQ(groups.memory_left_bytes(), 768 * kMiB);
}

// What a container sees without a namespace of its own for groups: its group is what is mounted.
TEST(VersionTwo, IsReadWhereTheMountIsAGroup) {
  const test::TemporaryFolder root;
  root.write("proc/self/mountinfo",
             "26 23 0:24 /docker/1a /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n");
  root.write("proc/self/cgroup", "0::/docker/1a/inner\n");
  root.write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  root.write("sys/fs/cgroup/inner/cpu.max", "300000 100000\n");
  EXPECT_EQ(Cgroups(root.path()).cpu_quota(), 2);
  root.write("proc/self/cgroup", "0::/../outside\n");
  EXPECT_EQ(Cgroups(root.path()).cpu_quota(), 2);
}

TEST(Cgroups, AreNoLimitWhereThereAreNone) {
  const test::TemporaryFolder root;
  const Cgroups groups(root.path());
  EXPECT_FALSE(groups.cpu_quota());
  EXPECT_FALSE(groups.throttled_s());
  EXPECT_FALSE(groups.memory_limit_bytes());
}

}  // namespace
}  // namespace gradsync::launch
