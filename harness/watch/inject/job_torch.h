// Which torch a training command will use, found without starting it.
//
// The command is often wrapped: torchrun, accelerate launch, mpirun -n 2 python, env A=b. So its
// words are tried one after the other; the first that is a Python interpreter, a script of one, or
// a program linked with LibTorch decides. What a shell script starts cannot be seen; --python says
// it.
#pragma once

#include <string>
#include <vector>

namespace gradsync::watch {

struct JobTorch {
  std::string folder;   // with include/ and lib/libtorch_cpu.so
  std::string version;  // "2.11.0"
  bool cxx11_abi = true;
};

// Returns the torch of `command`; where none of its words tells, that of the python3 in PATH.
// `python`: the interpreter to ask instead; "": find it.
// Errors: EnvironmentError where there is no torch, one without libtorch_cpu.so (statically
// linked), without headers, or older than 2.6.   Cost: Python is started, but torch is not
// imported.
JobTorch find_job_torch(const std::vector<std::string>& command, const std::string& python = "");

// "2.11": what is built for one torch fits those that have this, and the same ABI, in common.
std::string minor_of(const JobTorch& torch);

// Returns the torch in `folder`, examined as above.   Errors: as above.
JobTorch examine_torch(const std::string& folder);

}  // namespace gradsync::watch
