// What process groups do, by what wrappers, meshes and collectives say.
#include "harness/watch/read/group_roles.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace gradsync::watch {
namespace {

Event collective(const std::string& op, std::int64_t group, std::int64_t bytes = 8) {
  Event event;
  event.name = op;
  event.object = group;
  event.bytes = bytes;
  return event;
}

Event forward(const std::string& wrapper) {
  Event event;
  event.kind = EventKind::Forward;
  event.name = wrapper;
  return event;
}

Group group(std::int64_t number, std::vector<int> ranks, const std::string& axis = "") {
  Group made;
  made.name = std::to_string(number);
  made.number = number;
  made.ranks = std::move(ranks);
  made.axis = axis;
  return made;
}

Group told(Group made, GroupRole role) {
  made.role = role;
  made.is_told = true;
  return made;
}

GroupRole role_in(RankEvents process, std::size_t event) {
  assign_roles(process);
  return process.events.at(event).role;
}

TEST(GroupRoles, NamesOfAxes) {
  EXPECT_EQ(role_of_axis("dp_replicate"), GroupRole::Replicate);
  EXPECT_EQ(role_of_axis("dp_shard_cp"), GroupRole::Shard);
  EXPECT_EQ(role_of_axis("dp"), GroupRole::DataParallel);
  EXPECT_EQ(role_of_axis("expert_dp"), GroupRole::DataParallel);
  EXPECT_EQ(role_of_axis("tp"), GroupRole::Tensor);
  EXPECT_EQ(role_of_axis("cp"), GroupRole::Context);
  EXPECT_EQ(role_of_axis("ep"), GroupRole::Expert);
  EXPECT_EQ(role_of_axis("pp"), GroupRole::Pipeline);
  EXPECT_EQ(role_of_axis("steps"), GroupRole::Unknown);  // no word of it is "ep"
}

TEST(GroupRoles, AWrapperKnowsBetterThanTheMesh) {
  RankEvents process;
  process.events = {collective("all_reduce", 1)};
  process.groups = {told(group(1, {0, 1}, "tp"), GroupRole::DataParallel)};
  EXPECT_EQ(role_in(process, 0), GroupRole::DataParallel);
}

TEST(GroupRoles, WrappersThatContradictEachOther) {
  std::vector<Group> groups;
  add_group(groups, told(group(1, {0, 1}), GroupRole::Shard));
  add_group(groups, group(1, {0, 1}, "dp"));
  EXPECT_EQ(groups.at(0).role, GroupRole::Shard);
  EXPECT_EQ(groups.at(0).axis, "dp");
  add_group(groups, told(group(1, {0, 1}), GroupRole::DataParallel));
  EXPECT_EQ(groups.at(0).role, GroupRole::Unknown);
  RankEvents process;
  process.events = {forward("fully_shard"), collective("reduce_scatter", 1)};
  process.groups = groups;
  EXPECT_EQ(role_in(process, 1), GroupRole::Unknown);
}

TEST(GroupRoles, NothingMovesInAGroupOfOneRank) {
  RankEvents process;
  process.events = {collective("all_reduce", 1)};
  process.groups = {told(group(1, {0}), GroupRole::Replicate)};
  EXPECT_EQ(role_in(process, 0), GroupRole::Alone);
}

TEST(GroupRoles, TheOnlyRankOfAJobIsNotApart) {
  const auto is_apart = [](int world_size) {
    RankEvents process;
    process.world_size = world_size;
    process.events = {collective("all_reduce", 1)};
    process.groups = {told(group(1, {0}), GroupRole::DataParallel)};
    assign_roles(process);
    return process.events[0].is_apart;
  };
  EXPECT_FALSE(is_apart(1));
  EXPECT_TRUE(is_apart(2));
}

TEST(GroupRoles, ShardsAndReplicasByTheirCollectives) {
  RankEvents process;
  process.events = {forward("fully_shard"),           collective("reduce_scatter", 1, 800),
                    collective("all_reduce", 2, 400), collective("reduce_scatter", 1, 80),
                    collective("all_reduce", 2, 40),  collective("all_reduce", 3, 40)};
  EXPECT_EQ(role_in(process, 1), GroupRole::Shard);
  EXPECT_EQ(role_in(process, 2), GroupRole::Replicate);
  EXPECT_EQ(role_in(process, 5), GroupRole::Unknown);
  process.events[0] = forward("DistributedDataParallel");
  EXPECT_EQ(role_in(process, 1), GroupRole::Unknown);
}

TEST(GroupRoles, ExpertsAndPipelinesByTheirCollectives) {
  RankEvents process;
  process.events = {collective("all_to_all", 1), collective("send", 2), collective("recv", 2),
                    collective("all_to_all", 3), collective("all_reduce", 3)};
  EXPECT_EQ(role_in(process, 0), GroupRole::Expert);
  EXPECT_EQ(role_in(process, 1), GroupRole::Pipeline);
  EXPECT_EQ(role_in(process, 3), GroupRole::Unknown);
}

TEST(GroupRoles, ShardsHaveReplicasWhereThatGroupHasSeveralRanks) {
  const auto with_replicas = [](std::vector<int> ranks) {
    RankEvents process;
    process.events = {collective("reduce_scatter", 1)};
    process.groups = {told(group(1, {0, 1}), GroupRole::Shard),
                      told(group(2, std::move(ranks)), GroupRole::Replicate)};
    process.groups[0].replicas = "2";
    assign_roles(process);
    return process.events[0].has_replicas;
  };
  EXPECT_TRUE(with_replicas({0, 2}));
  EXPECT_FALSE(with_replicas({0}));
}

TEST(GroupRoles, CollectivesOfNoGroupHaveNone) {
  RankEvents process;
  process.events = {collective("all_reduce", 0)};
  EXPECT_EQ(role_in(process, 0), GroupRole::Unknown);
  EXPECT_TRUE(process.groups.empty());
}

}  // namespace
}  // namespace gradsync::watch
