# Finds gloo's headers (Debian: libgloo-dev). The library itself is inside libtorch_cpu.
find_path(GLOO_INCLUDE_DIR gloo/algorithm.h)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Gloo REQUIRED_VARS GLOO_INCLUDE_DIR)
if(Gloo_FOUND AND NOT TARGET gradsync::gloo_headers)
  add_library(gradsync_gloo_headers INTERFACE)
  add_library(gradsync::gloo_headers ALIAS gradsync_gloo_headers)
  target_include_directories(gradsync_gloo_headers SYSTEM INTERFACE ${GLOO_INCLUDE_DIR})
endif()
