// What the Python hook says of the parameters that a rank's optimizers step: who reduces the
// gradient of each, and bit hashes of those that the rank has whole, at a few steps.
//
// Its lines are
//
//   {"kind": "parameters", "object": 1, "name": "SGD",    of an optimizer, in the order in which
//    "file": "train.py", "line": 31,                      they are made; again for what is added
//    "gone_before": 0, "hardware": "NVIDIA H100", "parameters": [
//      {"index": 4, "name": "proxies", "elements": 320,
//       "is_whole": true, "is_constant": false, "is_stepped": true, "owner": "none", "model": 0,
//       "group": "",
//       "meant": "hooked", "hook_file": "train.py", "hook_line": 25}]}   of some alone
//   {"kind": "hashes", "object": 1, "step": 2,            before its third step; equal where all
//    "is_last": false, "values": {"4": "3294294100"},     bits are
//    "samples": {"4": [0.1, 0.2, 0.3, 0.4]}, "took_s": 0.001}
//   {"kind": "exchange", "name": "all_reduce",            by hand, most in one of the first steps:
//    "what": "gradient", "step": 1, "calls": 1,           what the calls of one line moved, and a
//    "bytes": 1280, "value": "771", "group": "", "members":              hash of all of it before
//      [{"object": 1, "index": 4}], "file": "train.py", "line": 40}
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gradsync::watch {

struct RankEvents;

enum class Owner {
  None,     // in no wrapped model
  Wrapper,  // its reduction has it
  Shard,    // so does that of one that shards it
  Ignored,  // the wrapper was told to leave it out
  Added,    // to a wrapped model later, or unfrozen
  Buffer,   // of a wrapped model
  Frozen,   // in a wrapped model: no optimizer steps it, and yet the job changes it
};

// What the job itself says of a parameter.
enum class Meant {
  Nothing,
  Replica,     // by an attribute: its gradient is to be summed over ranks
  Own,         // by an attribute: each rank's, as an expert's is
  Hooked,      // it has a hook with a reduction in its code
  HookedCopy,  // a copy of it has
};

struct TrackedParameter {
  int index = 0;     // among those of its optimizer
  std::string name;  // as its outermost module calls it; "": no module has it
  std::int64_t elements = 0;
  bool is_whole = false;     // else a shard, of which there is no hash
  bool is_constant = false;  // when it was first seen: all elements were alike
  bool is_stepped = true;    // else it has a gradient here, and only other ranks may step it
  Owner owner = Owner::None;
  std::int64_t model = 0;  // as in Event::object; 0: none
  std::string group;       // in which the wrapper reduces; "": not known
  Meant meant = Meant::Nothing;
  std::string mark;       // that attribute
  std::string hook_file;  // where the job registers that hook
  int hook_line = 0;
};

struct HashLook {
  std::int64_t step = 0;  // how many steps the optimizer had done
  bool is_last = false;   // when the process ended, with parameters as the last step left them
  std::map<std::string, std::string> values;           // by index
  std::map<std::string, std::vector<double>> samples;  // of some: a few of its numbers
  double took_s = 0;                                   // of its thread
};

struct TrackedOptimizer {
  std::string name;  // "SGD"
  std::string file;  // where the job made it; "": not known
  int line = 0;
  // So many that the job made at this line had stepped and were gone when it was made.
  int gone_before = 0;
  std::string hardware;  // on which it computes; "": not known
  std::vector<TrackedParameter> parameters;
  std::vector<HashLook> looks;
};

struct Exchange {
  enum class What {
    Gradient,       // itself
    Copy,           // of gradients
    Parameter,      // itself
    OuterGradient,  // behind the first steps: of an optimizer that has done fewer than these
  };
  struct Member {
    std::int64_t object = 0;
    int index = 0;
  };
  std::string name;  // "all_reduce"
  What what = What::Gradient;
  std::int64_t step = 0;  // how many steps the optimizer had done
  std::int64_t calls = 0;
  std::int64_t bytes = 0;  // of all of them
  std::string value;       // equal on two ranks: they moved the same
  std::string group;       // "": of all ranks
  std::vector<Member> members;
  std::string file;
  int line = 0;
};

using TrackedOptimizers = std::map<std::int64_t, TrackedOptimizer>;  // by number

// Takes a line of these kinds into `events`. Returns whether it is one.
// Errors: ConfigError as parse_hook_events().
bool read_parameter_line(const nlohmann::json& line, const std::string& kind,
                         const std::string& place, RankEvents& events);

}  // namespace gradsync::watch
