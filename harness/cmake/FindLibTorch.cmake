# Finds LibTorch inside a Python wheel or an unpacked libtorch, by hand: the wheel's own
# TorchConfig.cmake insists on a CUDA toolkit even where only the CPU library is wanted.
#
# Input:  GRADSYNC_TORCH, a directory with include/ and lib/libtorch_cpu.so (cache or environment);
#         else the one that harness/setup found or fetched.
# Output: gradsync::libtorch (libtorch_cpu and libc10 only), GRADSYNC_TORCH_VERSION.

if(NOT GRADSYNC_TORCH AND DEFINED ENV{GRADSYNC_TORCH})
  set(GRADSYNC_TORCH $ENV{GRADSYNC_TORCH})
endif()
if(NOT GRADSYNC_TORCH AND EXISTS ${CMAKE_SOURCE_DIR}/build/deps/env)
  file(STRINGS ${CMAKE_SOURCE_DIR}/build/deps/env found REGEX "^GRADSYNC_TORCH=")
  string(REPLACE "GRADSYNC_TORCH=" "" GRADSYNC_TORCH ${found})
endif()
set(GRADSYNC_TORCH "${GRADSYNC_TORCH}" CACHE PATH "Directory holding LibTorch's include/ and lib/")
if(NOT EXISTS ${GRADSYNC_TORCH}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "No LibTorch in GRADSYNC_TORCH='${GRADSYNC_TORCH}': expected "
    "lib/libtorch_cpu.so there. Run harness/setup, which finds or fetches one.")
endif()

file(STRINGS ${GRADSYNC_TORCH}/include/torch/headeronly/version.h _version_lines
  REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH)")
string(REGEX MATCHALL "[0-9]+" _version_parts "${_version_lines}")
list(JOIN _version_parts "." GRADSYNC_TORCH_VERSION)

add_library(gradsync_libtorch INTERFACE)
add_library(gradsync::libtorch ALIAS gradsync_libtorch)
target_include_directories(gradsync_libtorch SYSTEM INTERFACE
  ${GRADSYNC_TORCH}/include ${GRADSYNC_TORCH}/include/torch/csrc/api/include)
target_compile_definitions(gradsync_libtorch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
target_link_libraries(gradsync_libtorch INTERFACE
  ${GRADSYNC_TORCH}/lib/libtorch_cpu.so ${GRADSYNC_TORCH}/lib/libc10.so Threads::Threads)
# The wheel's library finds its own companions by its RPATH; the linker must not insist on them.
target_link_options(gradsync_libtorch INTERFACE LINKER:--allow-shlib-undefined
  LINKER:-rpath,${GRADSYNC_TORCH}/lib)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch REQUIRED_VARS GRADSYNC_TORCH
  VERSION_VAR GRADSYNC_TORCH_VERSION)
