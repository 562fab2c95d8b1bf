#include "harness/session/time_variables.h"

#include <gmock/gmock.h>

namespace gradsync::session {
namespace {

using testing::IsEmpty;
using Variables = std::map<std::string, std::string>;

const launch::Environment kEnvironment{{"CUDA_LAUNCH_BLOCKING", "1"},
                                       {"CUDA_VISIBLE_DEVICES", "3"},
                                       {"HOME", "/root"},
                                       {"NCCL_ALGO", "Ring"},
                                       {"NCCL_DEBUG_FILE", "/tmp/log"},
                                       {"NCCL_HOSTID", "node7"},
                                       {"ONEDNN_MAX_CPU_ISA", "AVX2"},
                                       {"PYTORCH_ALLOC_CONF", "expandable_segments:True"},
                                       {"TORCH_NCCL_HIGH_PRIORITY", "1"}};

TEST(TimeVariables, AreThoseThatChangeTimesOnTheDevice) {
  EXPECT_EQ(time_variables(kEnvironment, "cuda"),
            (Variables{{"CUDA_LAUNCH_BLOCKING", "1"},
                       {"NCCL_ALGO", "Ring"},
                       {"ONEDNN_MAX_CPU_ISA", "AVX2"},
                       {"PYTORCH_ALLOC_CONF", "expandable_segments:True"},
                       {"TORCH_NCCL_HIGH_PRIORITY", "1"}}));
  EXPECT_EQ(time_variables(kEnvironment, "cpu"), (Variables{{"ONEDNN_MAX_CPU_ISA", "AVX2"}}));
  EXPECT_THAT(time_variables({{"HOME", "/root"}}, "cuda"), IsEmpty());
}

}  // namespace
}  // namespace gradsync::session
