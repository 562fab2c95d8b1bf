#include "harness/comm/gpu_placement.h"

#include <gmock/gmock.h>

#include <map>

namespace gradsync::comm {
namespace {

using testing::HasSubstr;

std::map<std::string, std::string> environment(const NcclPlace& place) {
  const auto variables = nccl_environment(place);
  return {variables.begin(), variables.end()};
}

TEST(GpuPlacement, RanksTakeGpusInTurn) {
  EXPECT_EQ(gpu_of_rank(0, 4), 0);
  EXPECT_EQ(gpu_of_rank(3, 4), 3);
  EXPECT_EQ(gpu_of_rank(4, 4), 0);
  EXPECT_EQ(gpu_of_rank(7, 1), 0);
}

TEST(GpuPlacement, SharingIsKnownByTheGpusThemselves) {
  EXPECT_EQ(gpu_sharing({"a", "b"}).reason(), "");
  EXPECT_FALSE(gpu_sharing({"a"}).shared());
  EXPECT_EQ(gpu_sharing({"a", "a"}).reason(), "2 ranks share 1 GPU");
  EXPECT_EQ(gpu_sharing({"a", "b", "a", "b"}).reason(), "4 ranks share 2 GPUs");
  // Also where only some do: times of the others wait for theirs.
  EXPECT_EQ(gpu_sharing({"a", "b", "a"}).reason(), "3 ranks share 2 GPUs");
}

TEST(GpuPlacement, NcclTalksThroughTheRanksOwnInterface) {
  NcclPlace place;
  place.rank = 3;
  place.node = 1;
  place.interface = "eth0";
  place.nccl_version = 22809;
  const auto alone = environment(place);
  EXPECT_EQ(alone.at("NCCL_SOCKET_IFNAME"), "=eth0");
  EXPECT_EQ(alone.at("NCCL_HOSTID"), "gradsync-node1");
  EXPECT_FALSE(alone.contains("NCCL_MULTI_RANK_GPU_ENABLE"));
  place.interface = "";
  EXPECT_FALSE(environment(place).contains("NCCL_SOCKET_IFNAME"));
  // A collective that fails must not end the process before it has said so.
  EXPECT_EQ(alone.at("TORCH_NCCL_ASYNC_ERROR_HANDLING"), "2");
}

TEST(GpuPlacement, RanksOnOneGpuNeedNcclsConsent) {
  NcclPlace place;
  place.rank = 3;
  place.node = 1;
  place.shared = true;
  place.nccl_version = 22907;
  EXPECT_EQ(environment(place).at("NCCL_HOSTID"), "gradsync-rank3");
  EXPECT_FALSE(environment(place).contains("NCCL_MULTI_RANK_GPU_ENABLE"));
  place.nccl_version = 23000;
  EXPECT_EQ(environment(place).at("NCCL_HOSTID"), "gradsync-node1");
  EXPECT_EQ(environment(place).at("NCCL_MULTI_RANK_GPU_ENABLE"), "1");
}

// Lines as NCCL 2.28 writes them.
TEST(NcclTransports, AreWhatTheChannelsGoThrough) {
  const std::string log =
      "host:17:42 [0] NCCL INFO Bootstrap: Using lo:127.0.0.1<0>\n"
      "host:17:42 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
      "host:17:42 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
      "host:17:42 [0] NCCL INFO Channel 00/0 : 1[0] -> 2[0] [send] via NET/Socket/0\n"
      "host:17:42 [0] NCCL INFO Channel 02 : 0[0] -> 1[1] via SHM/direct/direct\n";
  EXPECT_EQ(nccl_transports(log), "NET/Socket, P2P/CUMEM, SHM/direct");
  EXPECT_EQ(nccl_transports("host:17:42 [0] NCCL INFO Init COMPLETE\n"), "");
}

TEST(NcclObstacle, AMissingInterfaceNamesThoseThatThereAre) {
  const std::string error =
      "NCCL error in: NCCLUtils.cpp:94, internal error\nLast error:\nBootstrap : no socket "
      "interface found";
  const auto chosen = nccl_obstacle(error, "ib0", {"lo", "eth0"});
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->what,
            "NCCL found no network interface for NCCL_SOCKET_IFNAME='ib0'; there are: lo, eth0");
  EXPECT_THAT(chosen->remedy, HasSubstr("unset NCCL_SOCKET_IFNAME"));
  const auto automatic = nccl_obstacle(error, "", {"eth0"});
  ASSERT_TRUE(automatic);
  EXPECT_THAT(automatic->what, HasSubstr("that it may use; there is: eth0"));
  EXPECT_THAT(automatic->remedy, HasSubstr("set NCCL_SOCKET_IFNAME"));
  EXPECT_FALSE(nccl_obstacle("NCCL error: remote process exited", "", {"eth0"}));
}

// All that NCCL 2.28.9 has of this kind, letter by letter.
TEST(NcclObstacle, IsKnownByEachOfNcclsSentences) {
  for (const char* sentence :
       {"Bootstrap : no socket interface found", "NET/Socket : no interface found",
        "NET/Socket : No usable listening interface found"}) {
    EXPECT_TRUE(nccl_obstacle(std::string("NCCL error\nLast error:\n") + sentence, "", {"lo"}))
        << sentence;
  }
}

}  // namespace
}  // namespace gradsync::comm
