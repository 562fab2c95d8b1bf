// The JSON files of a directory by name: plans, topologies, gates.
#pragma once

#include <string>
#include <vector>

namespace gradsync {

// Returns the names of the .json files, sorted; a JSON Schema (NAME.schema.json) is none of them.
// Empty where there is no such directory.
std::vector<std::string> list_json_files(const std::string& directory);

// Returns the file that `name` says: DIRECTORY/NAME.json, or the file `name` itself. `kind` says
// what it is a name of ("plan").   Errors: ConfigError with every name there is.
std::string find_json_file(const std::string& kind, const std::string& name,
                           const std::string& directory);

}  // namespace gradsync
