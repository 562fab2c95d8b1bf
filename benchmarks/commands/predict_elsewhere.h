// How long a step would take on other links, with other ranks, or synchronized in another way: for
// each cell, from a profile of the model. The rest of gradsync predict step is about watched jobs.
#pragma once

#include <string>
#include <vector>

#include "harness/launch/topology.h"

namespace gradsync::cli {

struct ElsewhereOptions {
  std::string model;                   // a name, a profile's path or the directory of a run; "":
                                       // the plan's models
  std::string plan;                    // its cells; "": those that `overrides` make
  std::vector<std::string> overrides;  // as --set has them
  std::vector<int> nodes;              // of each topology, instead of its own
  std::string links;                   // a file of schema gradsync.links/1; "": assumed values
  std::vector<std::string> profiles;   // "MODEL=FILE": recorded of a model that computes
  bool as_json = false;
};

// Returns the topology `name`, with rates divided by `scale`, on each number of `nodes`; on its own
// number where there is none. Errors: ConfigError naming the topologies there are.
std::vector<launch::Topology> topologies_of(const std::string& name, int scale,
                                            const std::vector<int>& nodes);

bool is_run(const std::string& name);

// Prints a row for each cell of the run in directory `model` that has times, with what was measured
// beside it. Links have the rates that they had there.
// Errors: ConfigError for options that ask for other cells, and where nothing has times.
void predict_run(const ElsewhereOptions& options);

// Prints the same for a run that has just ended, behind its own tables. A run without times has no
// rows.
void print_beside(const std::string& directory, const std::string& links_file);

// Prints a row for each cell: as a table, or as JSON. A cell that cannot be predicted has the
// reason instead.
// Errors: ConfigError for wrong options, and for a model without recorded times.
void predict_elsewhere(const ElsewhereOptions& options);

}  // namespace gradsync::cli
