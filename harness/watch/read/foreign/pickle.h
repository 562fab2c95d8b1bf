// Reads Python's pickles, of which strangers' run code where Python reads them: here they cannot.
//
// Taken are the opcodes that make plain data (numbers, text, bytes, lists, tuples, dictionaries),
// which is all that Flight Recorder writes. Any opcode that names or calls something of Python's
// (GLOBAL, REDUCE, BUILD, persistent ids and the like) is refused by its name.
// Source of the format: Python's Lib/pickletools.py.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace gradsync::watch {

// Returns whether `bytes` begin as a pickle of protocol 2 or later.
bool is_pickle(std::string_view bytes);

// Returns the data of the pickle `bytes` of the file named `name`: tuples are lists, and bytes are
// text.
// Errors: ConfigError with name, place, got and expected where it is cut off, damaged, nested more
// deeply than kDeepestJson, or more than plain data.
nlohmann::json parse_pickle(std::string_view bytes, const std::string& name);

}  // namespace gradsync::watch
