// The names that a stand-in must have: what torch's libraries take from the library that it stands
// in for, what they look for by name at run time, and what a header declares.
//
// They are read where they are written, on the machine that builds: no list of them is kept. The
// tools are those of the compiler (nm and readelf of binutils).
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

namespace gradsync::paper {

struct TorchNeeds {
  std::map<std::string, std::string> imports;  // function -> version of its symbol, or ""
  std::set<std::string> spelled;               // functions looked for by name (dlsym)
  std::set<std::string> libraries;             // sonames: "libcudart.so.13"
};

// Returns what torch's libraries in `folder`/lib need of CUDA and of what comes with it.
// Errors: EnvironmentError where it has no CUDA, or nm or readelf is missing. Cost: seconds.
TorchNeeds needs_of_torch(const std::string& folder);

// Returns the functions that a header declares, or that one of its macros renames another to. Names
// in its comments count: they are functions, too. Errors: EnvironmentError where it is missing.
std::set<std::string> functions_of_header(const std::string& path);

}  // namespace gradsync::paper
