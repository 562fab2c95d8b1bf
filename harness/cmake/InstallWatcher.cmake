# Puts the libraries that gradsync watch goes into a job with where an installed program looks for
# them (harness/watch/inject/preload_library.h): built by that program, for one torch.
#
# Input:  PROGRAM, the gradsync that builds them; TORCH, the folder torch/ of a Python's packages;
#         PYTHON, any interpreter; INTO, the folder of installed programs.
# usage:  cmake -DPROGRAM=... -DTORCH=... -DPYTHON=... -DINTO=... -P harness/cmake/InstallWatcher.cmake
cmake_minimum_required(VERSION 3.24)
cmake_path(GET TORCH PARENT_PATH packages)
set(ENV{PYTHONPATH} ${packages})
execute_process(COMMAND ${PROGRAM} watch --prepare --python ${PYTHON}
  OUTPUT_VARIABLE prepared COMMAND_ERROR_IS_FATAL ANY)
foreach(name loader watcher shipped_as)
  string(JSON ${name} GET ${prepared} ${name})
endforeach()
file(MAKE_DIRECTORY ${INTO})
cmake_path(GET loader FILENAME loader_name)
configure_file(${loader} ${INTO}/${loader_name} COPYONLY)
configure_file(${watcher} ${INTO}/${shipped_as} COPYONLY)
