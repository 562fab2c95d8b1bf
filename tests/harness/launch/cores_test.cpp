// Which processors ranks take, on machines that hwloc makes up.
#include "harness/launch/cores.h"

#include <gmock/gmock.h>
#include <sched.h>

#include <algorithm>

#include "harness/base/errors.h"

namespace gradsync::launch {
namespace {

using ::testing::ElementsAre;

std::vector<int> cpus_of(const std::string& synthetic) {
  std::vector<int> cpus;
  for (const Processor& processor : processors_of(synthetic)) cpus.push_back(processor.cpu);
  return cpus;
}

TEST(Cores, AreTakenBeforeSecondThreads) {
  // As most kernels count: the second threads after all first ones; and one after the other.
  EXPECT_THAT(cpus_of("core:4 pu:2(indexes=0,4,1,5,2,6,3,7)"), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(cpus_of("core:4 pu:2"), ElementsAre(0, 2, 4, 6, 1, 3, 5, 7));
  EXPECT_THAT(cpus_of("core:2 pu:4"), ElementsAre(0, 4, 1, 5, 2, 6, 3, 7));
}

TEST(Cores, AreTakenNodeOfMemoryByNode) {
  EXPECT_THAT(cpus_of("[numa] pack:2 core:2 pu:2"), ElementsAre(0, 2, 4, 6, 1, 3, 5, 7));
  // The kernel counts across the nodes in turn.
  EXPECT_THAT(cpus_of("pack:2 [numa] core:2 pu:1(indexes=0,2,1,3)"), ElementsAre(0, 2, 1, 3));
  const auto processors = processors_of("pack:2 [numa] core:2 pu:2");
  EXPECT_EQ(processors[1].numa, 0);
  EXPECT_EQ(processors[2].numa, 1);
}

TEST(Cores, AreCountedOnce) {
  EXPECT_EQ(core_count(processors_of("core:4 pu:2")), 4);
  EXPECT_EQ(core_count(processors_of("pack:2 core:3 pu:1")), 6);
}

TEST(Cores, AreThoseThisProcessMayUse) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  const std::vector<int> all = usable_cpus();
  EXPECT_EQ(static_cast<int>(all.size()), CPU_COUNT(&before));
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(all.back(), &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_THAT(usable_cpus(), ElementsAre(all.back()));
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(Cores, RefusesWhatIsNoMachine) {
  EXPECT_THROW(processors_of("core:none"), InternalError);
}

}  // namespace
}  // namespace gradsync::launch
