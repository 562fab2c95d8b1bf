// Where the program that runs is, and where the files are that come with it: plans, topologies,
// gates, profiles of models, published tables, plots, and what goes into a watched job.
//
// They have the same paths below one folder, wherever that is. An installed program (the package
// for Python) lies in bin/ beside it, and so do what else comes with it: a rank program and a
// watcher's library for each torch.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace gradsync {

// The file of this program.
std::filesystem::path this_program();

// The program's folder, with `name` in it: whether or not there is such a file.
std::filesystem::path beside_this_program(const std::string& name);

// Whether the program lies where a package put it, and not in a checkout's build.
bool is_installed();

// Returns the folder that holds the files: the one that GRADSYNC_DATA names; else of an installed
// program ../data; else the checkout that the program was built in.
// Errors: ConfigError where GRADSYNC_DATA names something else.
std::string data_folder();

// Returns the path of the file that a checkout has at `path`. Errors: as data_folder().
std::string data_file(const std::string& path);

// Returns the folder of a result `name` if the user chose none: in the checkout, wherever the
// program is called from; for an installed program, in the working directory. Relative to the
// working directory.
std::string default_result_folder(const std::string& name);

// The JSON files of a directory by name: plans, topologies, gates.

// Returns the names of the .json files, sorted; a JSON Schema (NAME.schema.json) is none of them.
// Empty where there is no such directory.
std::vector<std::string> list_json_files(const std::string& directory);

// Returns the file that `name` says: DIRECTORY/NAME.json, or the file `name` itself. `kind` says
// what it is a name of ("plan").   Errors: ConfigError with every name there is.
std::string find_json_file(const std::string& kind, const std::string& name,
                           const std::string& directory);

// Returns the sorted paths of what lies in `directory` with names PREFIX...SUFFIX.
// Errors: std::filesystem::filesystem_error where it cannot be listed.
std::vector<std::string> files_with(const std::string& directory, std::string_view prefix,
                                    std::string_view suffix);

}  // namespace gradsync
