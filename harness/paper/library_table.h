// The libraries that are stood in for: one row each, and nothing else knows them.
#pragma once

#include <string>
#include <vector>

namespace gradsync::paper {

struct StandIn {
  std::string stem;                  // "libcudart": what its soname begins with
  std::string functions;             // regular expression: the names that are its own
  std::vector<std::string> sources;  // below harness/paper/standins/, without .cpp
  int refusal = 0;                   // its own error for what it does not support
  std::string computes;              // regular expression: what computes, or only sets; succeeds
  std::string header;                // whose functions it has beside what torch takes; "": none
  std::string soname;                // where torch does not link it: the one to load; "": see torch
};

// In the order in which they are linked: the first has what the others use.
const std::vector<StandIn>& stand_ins();

}  // namespace gradsync::paper
