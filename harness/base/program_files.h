// Where the program that runs is, and where the files are that come with it: plans, topologies,
// gates, profiles of models, published tables, plots, and what goes into a watched job.
//
// They have the same paths below one folder, wherever that is. An installed program (the package
// for Python) lies in bin/ beside it, and so do what else comes with it: a rank program and a
// watcher's library for each torch.
#pragma once

#include <filesystem>
#include <string>

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

// Returns where the file is that a checkout has at `path`.   Errors: as data_folder().
std::string data_file(const std::string& path);

// Returns where a result of that name goes that nobody gave a place: to the checkout, wherever the
// program is called from, or, from an installed program, to the folder it is called in; as seen
// from there.
std::string default_result_folder(const std::string& name);

}  // namespace gradsync
