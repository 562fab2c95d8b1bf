# Finds what the CUDA module needs: nvcc, the toolkit's headers, NCCL's header, and a torch that was
# built for the same major version of CUDA. GRADSYNC_CUDA: AUTO takes them where they are, ON insists
# on them, OFF builds without.
# What lies beside a wheel's torch counts: there harness/setup --tests puts a toolkit of its version.
#
# Input:  GRADSYNC_CUDA, GRADSYNC_TORCH; CUDA_HOME of the environment is a hint.
# Output: GpuToolkit_FOUND, GRADSYNC_NVCC, GRADSYNC_NVCC_FLAGS, gradsync::libtorch_cuda.
set(GRADSYNC_CUDA AUTO CACHE STRING "Build the CUDA module: AUTO, ON or OFF")
set_property(CACHE GRADSYNC_CUDA PROPERTY STRINGS AUTO ON OFF)
set(GpuToolkit_FOUND FALSE)
if(NOT GRADSYNC_CUDA AND NOT GRADSYNC_CUDA STREQUAL AUTO)
  message(STATUS "CUDA module: not wanted (GRADSYNC_CUDA=${GRADSYNC_CUDA})")
  return()
endif()

set(_missing "")
file(GLOB _beside_torch ${GRADSYNC_TORCH}/../nvidia/cu[0-9]*)
find_program(GRADSYNC_NVCC nvcc HINTS ENV CUDA_HOME PATHS ${_beside_torch} /usr/local/cuda
  PATH_SUFFIXES bin)
if(GRADSYNC_NVCC)
  get_filename_component(_nvcc ${GRADSYNC_NVCC} REALPATH)
  get_filename_component(_toolkit ${_nvcc}/../.. ABSOLUTE)
else()
  list(APPEND _missing nvcc)
endif()
find_path(GRADSYNC_CUDA_INCLUDE cusolverDn.h HINTS ${_toolkit}/include)
find_path(GRADSYNC_NCCL_INCLUDE nccl.h
  HINTS ${GRADSYNC_TORCH}/../nvidia/nccl/include ${_toolkit}/include)
# A wheel has the library itself alone, without the name that linkers look for.
file(GLOB _cudart_names RELATIVE ${_toolkit}/lib ${_toolkit}/lib/libcudart.so.[0-9]*)
find_library(GRADSYNC_CUDART NAMES cudart ${_cudart_names} HINTS ${_toolkit}/lib64 ${_toolkit}/lib)
foreach(_need IN ITEMS GRADSYNC_CUDA_INCLUDE:cusolverDn.h GRADSYNC_NCCL_INCLUDE:nccl.h
    GRADSYNC_CUDART:libcudart.so)
  string(REPLACE ":" ";" _need ${_need})
  list(GET _need 0 _variable)
  list(GET _need 1 _name)
  if(NOT ${_variable})
    list(APPEND _missing ${_name})
  endif()
endforeach()
foreach(_library libtorch_cuda.so libc10_cuda.so)
  if(NOT EXISTS ${GRADSYNC_TORCH}/lib/${_library})
    list(APPEND _missing "torch's ${_library}")
  endif()
endforeach()

# Two CUDA runtimes of different major versions in one process do not know each other's kernels.
if(NOT _missing)
  file(STRINGS ${GRADSYNC_CUDA_INCLUDE}/cuda.h _cuda REGEX "define CUDA_VERSION [0-9]+")
  string(REGEX REPLACE ".* ([0-9]+)[0-9][0-9][0-9]$" "\\1" _cuda_major "${_cuda}")
  set(_torch_cuda "")
  if(EXISTS ${GRADSYNC_TORCH}/version.py)
    file(STRINGS ${GRADSYNC_TORCH}/version.py _torch_cuda REGEX "^cuda.*= '[0-9.]+'")
    string(REGEX REPLACE ".*'([0-9]+)[0-9.]*'.*" "\\1" _torch_cuda "${_torch_cuda}")
  endif()
  if(_torch_cuda AND NOT _torch_cuda STREQUAL _cuda_major)
    list(APPEND _missing "a toolkit of CUDA ${_torch_cuda}, which this torch is for (found ${_cuda_major})")
  endif()
endif()

# The architectures that torch's wheels are built for and that this nvcc knows: CUDA 12 goes from
# 5.0 to 12.0 and CUDA 13 from 7.5 on. Below 7.0 there is no __nanosleep. Newer GPUs compile the
# last one's PTX.
set(GRADSYNC_NVCC_FLAGS "")
if(NOT _missing)
  execute_process(COMMAND ${GRADSYNC_NVCC} --list-gpu-arch OUTPUT_VARIABLE _known)
  foreach(_architecture IN ITEMS 70 75 80 90 100 120)
    if(_known MATCHES "compute_${_architecture}\n")
      list(APPEND GRADSYNC_NVCC_FLAGS
        -gencode=arch=compute_${_architecture},code=sm_${_architecture})
      set(_last ${_architecture})
    endif()
  endforeach()
  list(APPEND GRADSYNC_NVCC_FLAGS -gencode=arch=compute_${_last},code=compute_${_last})
  list(APPEND GRADSYNC_NVCC_FLAGS -std=c++17 -O2 -ccbin ${CMAKE_CXX_COMPILER} -Xcompiler -fPIC)

  # A toolkit that cannot compile, because it is too old for the host's compiler or not whole, must not
  # break the build of all else.
  set(_probe ${CMAKE_BINARY_DIR}/CMakeFiles/nvcc_probe.cu)
  file(WRITE ${_probe} "__global__ void nap() { __nanosleep(100); }\nvoid run() { nap<<<1, 1>>>(); }\n")
  if(NOT GRADSYNC_NVCC_PROBED STREQUAL "${GRADSYNC_NVCC} ${GRADSYNC_NVCC_FLAGS}")
    execute_process(COMMAND ${GRADSYNC_NVCC} ${GRADSYNC_NVCC_FLAGS} -c ${_probe} -o ${_probe}.o
      RESULT_VARIABLE _failed OUTPUT_VARIABLE _said ERROR_VARIABLE _said)
    if(_failed)
      string(REGEX MATCH "[^\n]*(error|fatal)[^\n]*" _said "${_said}")
      list(APPEND _missing "an nvcc that works (${GRADSYNC_NVCC}: ${_said})")
    else()
      set(GRADSYNC_NVCC_PROBED "${GRADSYNC_NVCC} ${GRADSYNC_NVCC_FLAGS}" CACHE INTERNAL "")
    endif()
  endif()
endif()

if(_missing)
  list(JOIN _missing ", " _missing)
  if(GRADSYNC_CUDA STREQUAL AUTO)
    message(STATUS "CUDA module: left out, missing: ${_missing}")
  else()
    message(FATAL_ERROR "GRADSYNC_CUDA=${GRADSYNC_CUDA}, but missing: ${_missing}")
  endif()
  return()
endif()

set(GpuToolkit_FOUND TRUE)
message(STATUS "CUDA module: CUDA ${_cuda_major} of ${_toolkit}, NCCL of ${GRADSYNC_NCCL_INCLUDE}")
add_library(gradsync_libtorch_cuda INTERFACE)
add_library(gradsync::libtorch_cuda ALIAS gradsync_libtorch_cuda)
# NCCL's first: a toolkit may have another nccl.h, and torch's structures are as large as its own says.
target_include_directories(gradsync_libtorch_cuda SYSTEM INTERFACE
  ${GRADSYNC_NCCL_INCLUDE} ${GRADSYNC_CUDA_INCLUDE})
target_compile_definitions(gradsync_libtorch_cuda INTERFACE USE_C10D_NCCL)
target_link_libraries(gradsync_libtorch_cuda INTERFACE gradsync::libtorch
  ${GRADSYNC_TORCH}/lib/libtorch_cuda.so ${GRADSYNC_TORCH}/lib/libc10_cuda.so ${GRADSYNC_CUDART})
