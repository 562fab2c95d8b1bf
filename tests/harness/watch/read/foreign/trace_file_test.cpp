// Numbers that a trace does not tell, and collectives that it cannot.
//
// Covers: device_events.cpp.
#include "harness/watch/read/foreign/trace_file.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "harness/base/errors.h"
#include "harness/watch/judge/watched.h"
#include "harness/watch/read/foreign/kineto.h"

namespace gradsync::watch {
namespace {

using nlohmann::json;

json made_trace() {
  return json::parse(R"({"schemaVersion": 1,
    "distributedInfo": {"rank": 1, "world_size": 2,
                        "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1]}]},
    "traceEvents": [
      {"ph": "X", "cat": "cpu_op", "name": "aten::add_", "pid": 5, "tid": 7, "ts": 1.5, "dur": 2,
       "args": {"Input Dims": [[3, 4], [[2], [3]]], "Input type": ["float", "TensorList"]}},
      {"ph": "X", "cat": "user_annotation", "name": "record_param_comms", "pid": 5, "tid": 7,
       "ts": 4, "dur": 1,
       "args": {"Collective name": "allreduce", "In msg nelems": 6, "Out msg nelems": 6,
                "Group size": 2, "dtype": "Float", "Process Group Name": "0"}}]})");
}

// With null at this place.
TraceFile parsed_without(const char* pointer) {
  json trace = made_trace();
  trace.at(json::json_pointer(pointer)) = nullptr;
  return parse_trace(trace.dump(), "trace.json");
}

TEST(TraceFile, ANumberThatIsNullIsNotKnown) {
  EXPECT_EQ(parsed_without("/distributedInfo/world_size").world_size, 0);
  EXPECT_EQ(parsed_without("/distributedInfo/rank").rank, -1);
  EXPECT_EQ(parsed_without("/distributedInfo").rank, -1);
  EXPECT_EQ(parsed_without("/traceEvents/0/pid").pid, 5);
  EXPECT_THAT(parsed_without("/distributedInfo/pg_config/0/ranks/0").groups.at(0).ranks,
              testing::IsEmpty());
  EXPECT_EQ(parsed_without("/traceEvents/1/args/In msg nelems").comms.at(0).in_elements, -1);
  EXPECT_EQ(parsed_without("/traceEvents/1/args/Group size").comms.at(0).group_size, 0);
}

TEST(TraceFile, TimesSince1970AreExact) {
  json trace = made_trace();
  trace["traceEvents"][0]["ts"] = std::int64_t{1'661'938'466'274'409};
  trace["traceEvents"][0]["dur"] = 3;
  const TraceFile file = parse_trace(trace.dump(), "trace.json");
  EXPECT_EQ(file.ranges.back().start_ns, 1'661'938'466'274'409'000);
  EXPECT_EQ(file.ranges.back().end_ns, 1'661'938'466'274'412'000);
  EXPECT_EQ(exact_nanoseconds(4458677009853.422), 4'458'677'009'853'422);
}

TEST(TraceFile, OneOfGpusOfPaperTellsNoSeconds) {
  json trace = made_trace();
  trace["cuda_driver_version"] = 13000;
  EXPECT_FALSE(parse_trace(trace.dump(), "trace.json").is_on_paper);
  trace["cuda_driver_version"] = 13009;
  const TraceFile on_paper = parse_trace(trace.dump(), "trace.json");
  EXPECT_TRUE(on_paper.is_on_paper);
  EXPECT_THAT(
      summarize({events_of(on_paper)}).faults,
      testing::Contains(testing::HasSubstr("GPUs of paper: nothing was computed or timed")));
}

TEST(TraceFile, SizesThatAreNotKnownAreNotTold) {
  EXPECT_NE(parse_trace(made_trace().dump(), "trace.json").ranges.at(0).inputs, nullptr);
  for (const char* size : {"/0", "/0/1", "/1/0", "/1/0/0"}) {
    const auto trace =
        parsed_without((std::string("/traceEvents/0/args/Input Dims") + size).c_str());
    EXPECT_EQ(trace.ranges.at(0).inputs, nullptr) << size;
  }
}

TEST(TraceFile, WhereItIsNotKnownWhenARangeRanNothingIsJudged) {
  for (const char* field : {"ts", "dur", "tid"}) {
    const TraceFile trace = parsed_without((std::string("/traceEvents/0/") + field).c_str());
    EXPECT_EQ(trace.ranges.size(), 1U) << field;
    EXPECT_TRUE(events_of(trace).lacks_ranges) << field;
  }
  EXPECT_FALSE(events_of(parse_trace(made_trace().dump(), "trace.json")).lacks_ranges);
}

json on_gpu(const char* category, const char* name, const json& correlation) {
  return {{"ph", "X"}, {"cat", category}, {"name", name}, {"args", {{"correlation", correlation}}}};
}

// As made_trace() with these behind what the host ran.
RankEvents traced_with(const std::vector<json>& more) {
  json trace = made_trace();
  for (const json& event : more) trace.at("traceEvents").push_back(event);
  return events_of(parse_trace(trace.dump(), "trace.json"));
}

const json kGraph = on_gpu("cuda_runtime", "cudaGraphLaunch", 9);
const json kNccl =
    on_gpu("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)", 9);
const json kGemm = on_gpu("kernel", "sm90_xmma_gemm_f32f32", 9);

TEST(TraceFile, AGraphThatRunsNcclOrOfWhichNothingIsToldIsNotJudged) {
  for (const auto& events :
       std::vector<std::vector<json>>{{kGraph, kNccl, kGemm},
                                      {kNccl, kGemm, kGraph},
                                      {kGraph},
                                      {on_gpu("cuda_driver", "cuGraphLaunch", nullptr), kGemm}}) {
    const RankEvents rank = traced_with(events);
    EXPECT_TRUE(rank.graphs_may_communicate) << json(events);
    const Watched watched = summarize({rank});
    EXPECT_EQ(watched.verdicts.front().kind, VerdictKind::NotInFile);
    EXPECT_EQ(watched.verdicts.front().cause, Cause::CudaGraphsNotTold);
  }
}

TEST(TraceFile, AGraphThatOnlyComputesBesideCollectivesIsNoObstacle) {
  json of_c10d = kNccl;
  of_c10d["args"]["correlation"] = 10;
  EXPECT_FALSE(traced_with({kGraph, kGemm, of_c10d}).graphs_may_communicate);
  EXPECT_FALSE(traced_with({kNccl, kGemm}).graphs_may_communicate);
}

TEST(TraceFile, ANumberThatIsNoneIsAnError) {
  for (const char* name : {"/distributedInfo/world_size", "/traceEvents/0/ts"}) {
    json trace = made_trace();
    trace.at(json::json_pointer(name)) = "two";
    EXPECT_THROW(parse_trace(trace.dump(), "trace.json"), ConfigError) << name;
  }
  json trace = made_trace();
  trace["traceEvents"][0].erase("ts");
  EXPECT_THROW(parse_trace(trace.dump(), "trace.json"), ConfigError);
}

// Some of the traces that others published have a rank alone.
TEST(TraceFile, OneThatDoesNotTellTheWorldIsRefusedWithThatReason) {
  for (const char* field : {"world_size", "rank"}) {
    json trace = made_trace();
    trace["distributedInfo"].erase(field);
    trace["traceEvents"].erase(1);
    const TraceFile file = parse_trace(trace.dump(), "trace.json");
    EXPECT_TRUE(file.world_size == 0 || file.rank < 0) << field;
  }
  json trace = made_trace();
  trace["distributedInfo"] = {{"backend", "nccl"}};
  trace["traceEvents"].erase(1);
  const Watched watched = summarize({events_of(parse_trace(trace.dump(), "trace.json"))});
  EXPECT_EQ(watched.verdicts.front().kind, VerdictKind::NotInFile);
  EXPECT_EQ(watched.verdicts.front().cause, Cause::WorldSizeNotTold);
}

}  // namespace
}  // namespace gradsync::watch
