#include "harness/comm/gpu_placement.h"

#include <gmock/gmock.h>

#include <map>

#include "harness/comm/cuda/device_clock.h"

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
  const auto sharing = [](const std::vector<std::string>& uuids) {
    std::vector<GpuPlace> gpus;
    for (const std::string& uuid : uuids) gpus.push_back({uuid, "0 " + uuid});
    return gpu_sharing(gpus);
  };
  EXPECT_EQ(sharing({"a", "b"}).reason(), "");
  EXPECT_FALSE(sharing({"a"}).shared());
  EXPECT_EQ(sharing({"a", "a"}).reason(), "2 ranks share 1 GPU");
  EXPECT_EQ(sharing({"a", "b", "a", "b"}).reason(), "4 ranks share 2 GPUs");
  // Also where only some do: times of the others wait for theirs.
  EXPECT_EQ(sharing({"a", "b", "a"}).reason(), "3 ranks share 2 GPUs");
}

TEST(GpuPlacement, InstancesOfOneGpuAreKnownByTheirParent) {
  const GpuPlace first{"MIG-1", "0 0000:41:00.0"};
  EXPECT_EQ(gpu_place(first.text()).uuid, "MIG-1");
  EXPECT_EQ(gpu_place(first.text()).parent, "0 0000:41:00.0");
  EXPECT_TRUE(are_instances({first, {"MIG-2", "0 0000:41:00.0"}}));
  EXPECT_FALSE(are_instances({first, {"MIG-2", "1 0000:41:00.0"}}));  // of another host
  EXPECT_FALSE(are_instances({first, first}));                        // the same one: shared
  EXPECT_FALSE(gpu_sharing({first, {"MIG-2", "0 0000:41:00.0"}}).shared());
}

TEST(GpuPlacement, InstancesOfOneGpuNeedANewNcclAndItsConsent) {
  NcclPlace place;
  place.instances = true;
  place.nccl_version = 23000;
  EXPECT_FALSE(obstacle_to(place));
  EXPECT_EQ(environment(place).at("NCCL_MULTI_RANK_GPU_ENABLE"), "1");
  EXPECT_EQ(environment(place).at("NCCL_MNNVL_ENABLE"), "0");
  place.nccl_version = 22907;
  const auto obstacle = obstacle_to(place);
  ASSERT_TRUE(obstacle);
  EXPECT_THAT(obstacle->what, HasSubstr("NCCL 2.29"));
  EXPECT_THAT(obstacle->remedy, HasSubstr("NCCL 2.30 or later"));
  place.instances = false;
  EXPECT_FALSE(obstacle_to(place));
}

TEST(GpuPlacement, NcclStaysInTheNetworkThatWasMadeForARank) {
  NcclPlace place;
  place.rank = 3;
  place.host = 1;
  place.interface = "eth0";
  place.nccl_version = 22809;
  const auto made = environment(place);
  EXPECT_EQ(made.at("NCCL_SOCKET_IFNAME"), "=eth0");
  EXPECT_EQ(made.at("NCCL_NET"), "Socket");
  EXPECT_EQ(made.at("NCCL_MNNVL_ENABLE"), "0");
  EXPECT_EQ(made.at("NCCL_HOSTID"), "gradsync-host1");
  EXPECT_FALSE(made.contains("NCCL_MULTI_RANK_GPU_ENABLE"));
  // A collective that fails must not end the process before it has said so.
  EXPECT_EQ(made.at("TORCH_NCCL_ASYNC_ERROR_HANDLING"), "2");
}

// A site's nccl.conf counts for less than a variable, and a cluster may have several networks.
TEST(GpuPlacement, OnARealNetworkNcclChooses) {
  const auto real = environment({});
  for (const char* name : {"NCCL_SOCKET_IFNAME", "NCCL_NET", "NCCL_MNNVL_ENABLE"}) {
    EXPECT_FALSE(real.contains(name)) << name;
  }
}

TEST(GpuPlacement, RanksOnOneGpuNeedNcclsConsent) {
  NcclPlace place;
  place.rank = 3;
  place.host = 1;
  place.shared = true;
  place.nccl_version = 22907;
  EXPECT_EQ(environment(place).at("NCCL_HOSTID"), "gradsync-rank3");
  EXPECT_FALSE(environment(place).contains("NCCL_MULTI_RANK_GPU_ENABLE"));
  place.nccl_version = 23000;
  EXPECT_EQ(environment(place).at("NCCL_HOSTID"), "gradsync-host1");
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

std::string channel(const char* transport) {
  return std::string("host:17:42 [0] NCCL INFO Channel 00/0 : 1[0] -> 2[0] [send] via ") +
         transport;
}

TEST(NcclDetour, BetweenHostsEverythingButSocketsIsOne) {
  for (const char* transport : {"P2P/CUMEM", "SHM/direct/direct", "NET/IB/0/GDRDMA"}) {
    EXPECT_THAT(nccl_detour(channel(transport), 2), HasSubstr("rank 1 reaches rank 2 via "))
        << transport;
    EXPECT_EQ(nccl_detour(channel(transport), 4), "") << transport;  // within a host
  }
  EXPECT_EQ(nccl_detour(channel("NET/Socket/0"), 2), "");
  EXPECT_EQ(nccl_detour(channel("NET/IB/0"), 1), "rank 1 reaches rank 2 via NET/IB");
}

TEST(NcclDetour, AFabricOfNvlinkIsOne) {
  const std::string comm = "NCCL INFO comm 0x55 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 ";
  EXPECT_THAT(nccl_detour(comm + "MNNVL 1\n", 1), HasSubstr("NVLink fabric (MNNVL)"));
  EXPECT_EQ(nccl_detour(comm + "MNNVL 0\n", 1), "");
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

TEST(NcclObstacle, AFullDevShmNamesTheContainersOption) {
  const auto full = nccl_obstacle(
      "NCCL error: unhandled system error\nLast error:\nError while creating shared memory segment "
      "/dev/shm/nccl-Vq3dUb (size 9637888), error: No space left on device (28)",
      "", {"eth0"});
  ASSERT_TRUE(full);
  EXPECT_THAT(full->what, HasSubstr("/dev/shm is full or too small"));
  EXPECT_THAT(full->remedy, HasSubstr("--shm-size=8g"));
  EXPECT_FALSE(nccl_obstacle("NCCL error: No space left on device", "", {"eth0"}));
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

TEST(DeviceClock, ThatStepsByAMillisecondPacesNoLayers) {
  EXPECT_FALSE(cuda::clock_obstacle(32));
  EXPECT_FALSE(cuda::clock_obstacle(1024));
  const auto coarse = cuda::clock_obstacle(1'000'000);
  ASSERT_TRUE(coarse);
  EXPECT_THAT(coarse->what(), HasSubstr("steps by 1000 us"));
  EXPECT_THAT(coarse->what(), HasSubstr("--device cpu"));
}

}  // namespace
}  // namespace gradsync::comm
