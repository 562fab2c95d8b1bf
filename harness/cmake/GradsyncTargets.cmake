# One function per kind of target, so that a folder's CMakeLists.txt is a list of names.

add_library(gradsync_flags INTERFACE)
target_include_directories(gradsync_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(gradsync_flags INTERFACE -Wall -Wextra -Wno-unused-parameter
  $<$<BOOL:${GRADSYNC_WERROR}>:-Werror>)
if(GRADSYNC_SANITIZE)
  target_compile_options(gradsync_flags INTERFACE -fsanitize=${GRADSYNC_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(gradsync_flags INTERFACE -fsanitize=${GRADSYNC_SANITIZE})
endif()

# gradsync_library(NAME SOURCES a.cpp... [DEPS gradsync::x...] [TORCH])
# Makes the static library gradsync_NAME, alias gradsync::NAME. TORCH compiles it with the shared
# precompiled header and links LibTorch.
function(gradsync_library name)
  cmake_parse_arguments(ARG "TORCH" "" "SOURCES;DEPS" ${ARGN})
  add_library(gradsync_${name} STATIC ${ARG_SOURCES})
  add_library(gradsync::${name} ALIAS gradsync_${name})
  target_link_libraries(gradsync_${name} PUBLIC gradsync_flags ${ARG_DEPS})
  if(ARG_TORCH)
    gradsync_use_torch(gradsync_${name})
  endif()
endfunction()

# gradsync_test(PATH LABELS unit SOURCES a_test.cpp... [DEPS ...] [TORCH] [TIMEOUT seconds])
# Makes one GoogleTest program and registers its cases with ctest under the given labels.
function(gradsync_test name)
  cmake_parse_arguments(ARG "TORCH" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE gradsync_flags ${ARG_DEPS} GTest::gmock_main)
  target_compile_definitions(${name} PRIVATE GRADSYNC_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(ARG_TORCH)
    gradsync_use_torch(${name})
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
  if(NOT "unit" IN_LIST ARG_LABELS)
    # Several ranks and deadlines: beside other tests these would time out on a small machine.
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()

function(gradsync_use_torch target)
  # The precompiled header is valid only under the definitions it was made with: link the same.
  # LibTorch brings headers of a newer fmt than the system's library, hence header-only throughout.
  set(same fmt::fmt-header-only nlohmann_json::nlohmann_json gradsync::libtorch)
  target_link_libraries(${target} PUBLIC ${same})
  if(NOT TARGET gradsync_torch_pch)
    # Parsing LibTorch's headers costs 10 to 20 s per translation unit: do it once.
    file(WRITE ${CMAKE_BINARY_DIR}/torch_pch.cpp "")
    add_library(gradsync_torch_pch STATIC ${CMAKE_BINARY_DIR}/torch_pch.cpp)
    target_link_libraries(gradsync_torch_pch PUBLIC gradsync_flags ${same})
    target_precompile_headers(gradsync_torch_pch PRIVATE
      <torch/nn/module.h> <torch/csrc/autograd/custom_function.h>
      <torch/csrc/distributed/c10d/reducer.hpp> <nlohmann/json.hpp> <fmt/format.h>)
  endif()
  target_precompile_headers(${target} REUSE_FROM gradsync_torch_pch)
endfunction()
