// Answers to an unknown name: the names that are near, or all that there are.
#pragma once

#include <string>
#include <vector>

namespace gradsync {

// Returns those of `names` that somebody may have meant by `got`, the nearest first, at most three:
// one that begins with it or the other way round, or one that is at most a third of its letters
// away, where a letter is left out, put in, changed, or swapped with its neighbour (the distance of
// Damerau, restricted to neighbours).
std::vector<std::string> nearest_names(const std::string& got,
                                       const std::vector<std::string>& names);

// Returns what stands behind "expected": "one of a, b", of a long list "one of 50 names (did
// you mean steps?)" where a name is near.
std::string one_of_names(const std::string& got, const std::vector<std::string>& names);

// Returns "did you mean steps?", or "" where no name is near.
std::string did_you_mean(const std::string& got, const std::vector<std::string>& names);

}  // namespace gradsync
