#include "harness/summary/search.h"

#include <gtest/gtest.h>

namespace gradsync::summary {
namespace {

using nlohmann::json;

TEST(Search, IsWrittenWithNullForWhatIsNotKnown) {
  SearchedCell cell;
  cell.cell = json{{"topology", "1x2"}};
  cell.outcome = plan::Edge::Outcome::NotMonotone;
  cell.reason = "not monotone";
  cell.probes.push_back({.order = 3,
                         .value = std::nullopt,
                         .status = results::Status::Oom,
                         .reason = "out of memory",
                         .peak_allocated_bytes = 4096});
  Search search;
  search.plan = "sample";
  search.wanted = plan::Wanted::Smallest;
  search.axis = "memory_budget_bytes";
  search.checks = 2;
  search.cells = {cell};
  search.exit_status = 5;
  EXPECT_EQ(json(search), json::parse(R"({
    "schema": "gradsync.search/1", "plan": "sample", "wanted": "smallest",
    "axis": "memory_budget_bytes", "checks": 2, "exit_status": 5,
    "cells": [{"part": "", "cell": {"topology": "1x2"}, "from": 1, "to": null,
               "outcome": "not_monotone", "edge": null, "peak_allocated_bytes": null,
               "reason": "not monotone",
               "probes": [{"order": 3, "value": null, "status": "oom", "reason": "out of memory",
                           "peak_allocated_bytes": 4096}]}]})"));
}

}  // namespace
}  // namespace gradsync::summary
