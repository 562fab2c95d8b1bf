// Where the checkout and what the build made for tests lie.
//
// tests/CMakeLists.txt compiles them into one small object. All other sources compile alike in
// every folder, so that a compiler's cache serves several clones.
#pragma once

#include <string>

namespace gradsync::test {

// Returns the path that gradsync_test_path() of CMake names so; "source" is the checkout.
// Errors: std::out_of_range for another name.
std::string path_of(const std::string& name);

}  // namespace gradsync::test
