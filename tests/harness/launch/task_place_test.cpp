#include "harness/launch/task_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "harness/base/errors.h"

namespace gradsync::launch {
namespace {

using testing::HasSubstr;

// Rank 5 of 2 nodes x 4 ranks, as each launcher says it.
const Environment kTorchrun = {{"RANK", "5"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_RANK", "1"},
                               {"LOCAL_WORLD_SIZE", "4"},
                               {"GROUP_RANK", "1"},
                               {"MASTER_ADDR", "node0"},
                               {"MASTER_PORT", "1234"},
                               {"TORCHELASTIC_RUN_ID", "job7"},
                               {"TORCHELASTIC_RESTART_COUNT", "2"},
                               {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
const Environment kMpirun = {{"OMPI_COMM_WORLD_RANK", "5"},
                             {"OMPI_COMM_WORLD_SIZE", "8"},
                             {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                             {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                             {"MASTER_ADDR", "node0"}};
const Environment kSrun = {{"SLURM_STEP_ID", "0"},
                           {"SLURM_PROCID", "5"},
                           {"SLURM_STEP_NUM_TASKS", "8"},
                           {"SLURM_STEP_NUM_NODES", "2"},
                           {"SLURM_LOCALID", "1"},
                           {"SLURM_NODEID", "1"},
                           {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"},
                           {"SLURM_STEP_NODELIST", "gpu[07-08]"}};

Environment changed(Environment environment, const Environment& changes) {
  for (const auto& [name, value] : changes) environment[name] = value;
  return environment;
}

std::string refusal(const Environment& environment, int ranks_per_node = 0) {
  try {
    find_task_place(environment, ranks_per_node);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

void expect_rank_5_of_2x4(const Environment& environment, const std::string& launcher) {
  const auto place = find_task_place(environment);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->launcher, launcher);
  EXPECT_EQ(place->task, 5);
  EXPECT_EQ(place->tasks, 8);
  EXPECT_EQ(place->node, 1);
  EXPECT_EQ(place->nodes, 2);
  EXPECT_EQ(place->ranks_per_node, 4);
  EXPECT_EQ(place->first_rank, 5);
  EXPECT_EQ(place->ranks, 1);
}

TEST(TaskPlace, NoLauncherNoPlace) {
  EXPECT_FALSE(find_task_place({}));
  EXPECT_FALSE(find_task_place({{"RANK", ""}, {"HOME", "/"}}));
}

TEST(TaskPlace, ABatchScriptOutsideSrunIsNoTask) {
  EXPECT_FALSE(find_task_place({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}));
}

TEST(TaskPlace, OneTaskPerRankUnderEachLauncher) {
  expect_rank_5_of_2x4(kTorchrun, "torchrun");
  expect_rank_5_of_2x4(kMpirun, "mpirun");
  expect_rank_5_of_2x4(kSrun, "srun");
}

TEST(TaskPlace, TorchrunsStoreAndRestartsAreKnown) {
  const auto place = find_task_place(kTorchrun);
  EXPECT_TRUE(place->agent_store);
  EXPECT_EQ(place->run_id, "job7/2");
  EXPECT_EQ(place->master_address, "node0");
  EXPECT_EQ(place->master_port, 1234);
  EXPECT_FALSE(find_task_place(kSrun)->agent_store);
}

TEST(TaskPlace, AStartOfAJobHasAName) {
  const auto name_of = [](const Environment& environment) {
    return find_task_place(environment)->run_id;
  };
  EXPECT_EQ(name_of(changed(kSrun, {{"SLURM_JOB_ID", "12"}, {"SLURM_STEP_ID", "3"}})), "12.3");
  EXPECT_EQ(name_of(changed(kMpirun, {{"PMIX_NAMESPACE", "42"}})), "42");
  EXPECT_EQ(name_of(kMpirun), "gradsync");
  EXPECT_EQ(name_of(changed(kTorchrun, {{"GRADSYNC_TOKEN", "mine"}})), "mine");
  // By hand, what a launcher left behind on one of the hosts is no name.
  EXPECT_EQ(
      name_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"SLURM_STEP_ID", "3"}, {"SLURM_PROCID", "0"}}),
      "gradsync");
}

TEST(TaskPlace, SrunsFirstNodeListens) {
  EXPECT_EQ(find_task_place(kSrun)->master_address, "gpu07");
  EXPECT_EQ(find_task_place(changed(kSrun, {{"MASTER_ADDR", "10.0.0.1"}}))->master_address,
            "10.0.0.1");
}

TEST(TaskPlace, OneNodeNeedsNoMaster) {
  const Environment alone = {{"OMPI_COMM_WORLD_RANK", "1"},
                             {"OMPI_COMM_WORLD_SIZE", "2"},
                             {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                             {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  EXPECT_EQ(find_task_place(alone)->master_address, "127.0.0.1");
  Environment two = kMpirun;
  two.erase("MASTER_ADDR");
  EXPECT_THAT(refusal(two), HasSubstr("mpirun -x MASTER_ADDR=HOST"));
}

// The PyTorchJob's operator has counted pods in some versions and ranks in others.
TEST(TaskPlace, APodHostsItsRanksWhateverWorldSizeCounts) {
  for (const char* world_size : {"2", "8"}) {
    const auto place = find_task_place({{"RANK", "1"},
                                        {"WORLD_SIZE", world_size},
                                        {"PET_NNODES", "2"},
                                        {"PET_NPROC_PER_NODE", "4"},
                                        {"PET_NODE_RANK", "1"},
                                        {"MASTER_ADDR", "job-master-0"},
                                        {"MASTER_PORT", "23456"}});
    EXPECT_EQ(place->launcher, "PyTorchJob");
    EXPECT_EQ(place->tasks, 2) << world_size;
    EXPECT_EQ(place->node, 1);
    EXPECT_EQ(place->ranks, 4);
    EXPECT_EQ(place->first_rank, 4);
    EXPECT_EQ(place->master_port, 23456);
  }
}

TEST(TaskPlace, AutoRanksPerPodAreTheUsersWord) {
  const Environment pod = {{"RANK", "0"},
                           {"WORLD_SIZE", "3"},
                           {"PET_NNODES", "3"},
                           {"PET_NPROC_PER_NODE", "auto"},
                           {"MASTER_ADDR", "a"}};
  EXPECT_EQ(find_task_place(pod)->ranks_per_node, 1);
  EXPECT_EQ(find_task_place(pod, 2)->ranks_per_node, 2);
}

TEST(TaskPlace, OneTaskPerNodeHostsItsRanks) {
  const Environment per_node = changed(kSrun, {{"SLURM_PROCID", "1"},
                                               {"SLURM_STEP_NUM_TASKS", "2"},
                                               {"SLURM_LOCALID", "0"},
                                               {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}});
  const auto place = find_task_place(per_node, 4);
  EXPECT_EQ(place->tasks, 2);
  EXPECT_EQ(place->ranks_per_node, 4);
  EXPECT_EQ(place->first_rank, 4);
  EXPECT_EQ(place->ranks, 4);
  EXPECT_EQ(find_task_place(per_node)->ranks, 1);
}

TEST(TaskPlace, StartedByHandOnTwoHosts) {
  const auto place =
      find_task_place({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "host0"}}, 2);
  EXPECT_EQ(place->launcher, "environment");
  EXPECT_EQ(place->first_rank, 2);
  EXPECT_EQ(place->ranks, 2);
  EXPECT_EQ(place->master_port, 29500);
}

TEST(TaskPlace, TorchrunInsideSrunGoesByTorchrun) {
  expect_rank_5_of_2x4(changed(changed(kTorchrun, kSrun), {{"SLURM_PROCID", "1"}}), "torchrun");
}

TEST(TaskPlace, WhatIsMissingIsNamed) {
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}) {
    Environment environment = kTorchrun;
    environment.erase(name);
    EXPECT_THAT(refusal(environment), HasSubstr(std::string("variable ") + name + " is unset"));
  }
  Environment environment = kMpirun;
  environment.erase("OMPI_COMM_WORLD_LOCAL_SIZE");
  EXPECT_THAT(refusal(environment), HasSubstr("OMPI_COMM_WORLD_LOCAL_SIZE is unset"));
}

TEST(TaskPlace, WhatIsNoNumberIsNamed) {
  for (const char* text : {"five", "-1", "5x", "99999999999"}) {
    EXPECT_THAT(refusal(changed(kTorchrun, {{"RANK", text}})),
                HasSubstr(std::string("RANK: got '") + text + "'"));
  }
  EXPECT_THAT(refusal(changed(kTorchrun, {{"MASTER_PORT", "70000"}})), HasSubstr("MASTER_PORT"));
}

struct Contradiction {
  const char* name;
  Environment environment;
  int ranks_per_node;
  const char* says;
};

class Contradictions : public testing::TestWithParam<Contradiction> {};

TEST_P(Contradictions, AreErrors) {
  const std::string said = refusal(GetParam().environment, GetParam().ranks_per_node);
  EXPECT_THAT(said, HasSubstr("contradicts itself"));
  EXPECT_THAT(said, HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    TaskPlace, Contradictions,
    testing::Values(
        Contradiction{"rank_beyond_world", changed(kTorchrun, {{"RANK", "8"}}), 0, "RANK is 8"},
        Contradiction{"local_rank_beyond_node", changed(kTorchrun, {{"LOCAL_RANK", "4"}}), 0,
                      "LOCAL_RANK is 4"},
        Contradiction{"uneven_nodes", changed(kTorchrun, {{"LOCAL_WORLD_SIZE", "3"}}), 0,
                      "no multiple"},
        Contradiction{"dealt_round_the_nodes",
                      changed(kMpirun, {{"OMPI_COMM_WORLD_LOCAL_RANK", "2"}}), 0, "--map-by"},
        Contradiction{"group_rank", changed(kTorchrun, {{"GROUP_RANK", "0"}}), 0, "GROUP_RANK"},
        Contradiction{"node_id", changed(kSrun, {{"SLURM_NODEID", "0"}}), 0, "SLURM_NODEID"},
        Contradiction{"uneven_tasks", changed(kSrun, {{"SLURM_STEP_TASKS_PER_NODE", "5,3"}}), 0,
                      "--ntasks-per-node"},
        Contradiction{"two_launchers",
                      changed(kMpirun, {{"RANK", "4"},
                                        {"WORLD_SIZE", "8"},
                                        {"LOCAL_RANK", "0"},
                                        {"LOCAL_WORLD_SIZE", "4"}}),
                      0, "OMPI_COMM_WORLD_RANK is 5, but RANK is 4"},
        Contradiction{"too_many_per_node", kSrun, 8, "--ranks-per-node is 8"},
        Contradiction{"pods_and_ranks",
                      {{"RANK", "0"},
                       {"WORLD_SIZE", "6"},
                       {"PET_NNODES", "2"},
                       {"PET_NPROC_PER_NODE", "4"},
                       {"MASTER_ADDR", "a"}},
                      0,
                      "WORLD_SIZE is 6"}),
    [](const auto& info) { return info.param.name; });

TEST(FirstSlurmHost, ReadsCompressedLists) {
  EXPECT_EQ(first_slurm_host("localhost"), "localhost");
  EXPECT_EQ(first_slurm_host("a,b"), "a");
  EXPECT_EQ(first_slurm_host("gpu[07-12,20],login"), "gpu07");
  EXPECT_EQ(first_slurm_host("rack[1-2]u[3-4]"), "rack1u3");
  EXPECT_EQ(first_slurm_host("rack[1-2]-gpu,x"), "rack1-gpu");
}

// Slurm's own answer. scontrol wants a configuration, whatever it says.
std::string first_host_by_scontrol(const std::string& node_list) {
  const std::string config = testing::TempDir() + "task_place_test.slurm.conf";
  std::ofstream(config) << "ClusterName=none\nSlurmctldHost=none\n";
  const std::string command =
      "SLURM_CONF='" + config + "' scontrol show hostnames '" + node_list + "'";
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  std::array<char, 256> line{};
  const bool has_answer = std::fgets(line.data(), line.size(), pipe) != nullptr;
  while (std::fgetc(pipe) != EOF) continue;
  ::pclose(pipe);
  const std::string host = has_answer ? line.data() : "nothing";
  return host.substr(0, host.find('\n'));
}

TEST(FirstSlurmHost, IsTheOneThatScontrolNames) {
  if (std::system("command -v scontrol >/dev/null") != 0) {
    GTEST_SKIP() << "no scontrol; harness/setup --tests has it";
  }
  for (const char* list :
       {"localhost", "a,b", "a1,a2,a3", "gpu[07-12,20],login", "gpu[3,5]", "node[008-012]",
        "n[9-10]", "n[20,3-4],m[1-2]", "a[1]", "c457-[011-012]", "x-1-2,y[1-2]", "[1-3]",
        "rack[1-2]u[3-4]", "x[1-2]y[03,05],z", "a.b.c,d[1-2]", "compute+b24_[1-2]"}) {
    EXPECT_EQ(first_slurm_host(list), first_host_by_scontrol(list)) << list;
  }
}

}  // namespace
}  // namespace gradsync::launch
