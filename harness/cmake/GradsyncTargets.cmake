# One function per kind of target, so that a folder's CMakeLists.txt is a list of names.

add_library(gradsync_flags INTERFACE)
target_include_directories(gradsync_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(gradsync_flags INTERFACE -Wall -Wextra -Wno-unused-parameter
  $<$<BOOL:${GRADSYNC_WERROR}>:-Werror>)
# GCC 12 sees an overlap in every `"text" + string` (its bug 105651); there is none. Clang's tools read
# these flags too and know no such warning.
# And a unity build includes sources, which GCC then takes for headers whose classes use names that
# differ from file to file.
target_compile_options(gradsync_flags INTERFACE
  $<$<CXX_COMPILER_ID:GNU>:-Wno-unknown-warning-option> $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
# ccache needs it of GCC to see what a precompiled header contains.
target_compile_options(gradsync_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
if(GRADSYNC_SANITIZE)
  target_compile_options(gradsync_flags INTERFACE -fsanitize=${GRADSYNC_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(gradsync_flags INTERFACE -fsanitize=${GRADSYNC_SANITIZE})
endif()

if(GRADSYNC_FUZZ)
  # Count which branches ran; and end at the first undefined operation instead of going on.
  target_compile_options(gradsync_flags INTERFACE -fsanitize=fuzzer-no-link -fno-sanitize-recover=all)
  target_link_options(gradsync_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# What does not run while the clock does is compiled for a short build instead of a short run.
function(gradsync_build_fast target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# A unity build (the presets' CMAKE_UNITY_BUILD) reads shared headers once for several sources: what
# two sources of a target keep to themselves needs names that differ.

# gradsync_library(NAME SOURCES a.cpp... [DEPS gradsync::x...] [TORCH] [COLD])
# Makes the static library gradsync_NAME, alias gradsync::NAME. TORCH compiles it with LibTorch's
# precompiled header and links LibTorch. COLD: none of it runs inside a timed step.
function(gradsync_library name)
  cmake_parse_arguments(ARG "TORCH;COLD" "" "SOURCES;DEPS" ${ARGN})
  add_library(gradsync_${name} STATIC ${ARG_SOURCES})
  add_library(gradsync::${name} ALIAS gradsync_${name})
  target_link_libraries(gradsync_${name} PUBLIC gradsync_flags ${ARG_DEPS})
  if(ARG_TORCH)
    gradsync_use_torch(gradsync_${name})
  else()
    gradsync_use_common_headers(gradsync_${name})
  endif()
  if(ARG_COLD)
    gradsync_build_fast(gradsync_${name})
  endif()
endfunction()

# gradsync_install_program(TARGET NAME COMPONENT c) installs it into the package for Python as NAME,
# without the paths of this machine where it found its libraries, and without symbols. It is built by
# who installs it.
function(gradsync_install_program target name)
  cmake_parse_arguments(ARG "" "COMPONENT" "" ${ARGN})
  install(PROGRAMS $<TARGET_FILE:${target}> RENAME ${name} DESTINATION gradsync/bin
    COMPONENT ${ARG_COMPONENT})
  install(CODE "
    set(installed \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/gradsync/bin/${name}\")
    file(RPATH_REMOVE FILE \"\${installed}\")
    execute_process(COMMAND ${CMAKE_STRIP} \"\${installed}\" COMMAND_ERROR_IS_FATAL ANY)"
    COMPONENT ${ARG_COMPONENT})
endfunction()

# gradsync_test_properties(NAME LABELS unit [TIMEOUT seconds]) gives a test its labels and what follows
# from them: how long it may take, and whether others may run beside it. The limits are for hangs
# alone: what takes a minute here takes many on a busy machine, and under a sanitizer. TIMEOUT can
# only raise them.
function(gradsync_test_properties name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "LABELS" ${ARGN})
  set(timeout_s 600)
  if(NOT "unit" IN_LIST ARG_LABELS)
    set(timeout_s 1800)
  endif()
  if(ARG_TIMEOUT AND ARG_TIMEOUT GREATER timeout_s)
    set(timeout_s ${ARG_TIMEOUT})
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${timeout_s})
  if(NOT "unit" IN_LIST ARG_LABELS AND NOT "plot" IN_LIST ARG_LABELS)
    # Several ranks, links and pinned cores: beside many others they would only slow each other.
    # Two at a time: while one waits, for a deadline or an interpreter, the other computes. Each takes
    # more than a third of what ctest runs at a time where that is a test for each processor.
    cmake_host_system_information(RESULT processors QUERY NUMBER_OF_LOGICAL_CORES)
    math(EXPR share "${processors} / 3 + 1")
    set_tests_properties(${name} PROPERTIES PROCESSORS ${share})
  endif()
endfunction()

# gradsync_test_path(NAME PATH) lets tests have PATH, in which $<...> may stand, by path_of("NAME").
function(gradsync_test_path name path)
  set_property(GLOBAL APPEND_STRING PROPERTY gradsync_test_paths "{\"${name}\", \"${path}\"},\n")
endfunction()

# Makes a GoogleTest program, or does nothing where it is already made.
function(gradsync_test_program name torch)
  if(TARGET ${name})
    return()
  endif()
  add_executable(${name})
  target_link_libraries(${name} PRIVATE gradsync_flags gradsync_test_paths GTest::gmock_main)
  if(torch)
    gradsync_use_torch(${name})
  else()
    gradsync_use_common_headers(${name})
  endif()
  # A seventh less of the compiler's time than by gradsync_build_fast(), for what runs in tests alone.
  # GCC 12 then takes a part of std::regex for uninitialised.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-Og>
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  # What an assertion says of its place is then alike in every folder, too: a unity build has whole
  # paths.
  target_compile_options(${name} PRIVATE -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
endfunction()

# gradsync_suites(OUT a_test.cpp...) sets OUT to what --gtest_filter needs for the cases of the files.
function(gradsync_suites out)
  set(filter "")
  foreach(source ${ARGN})
    file(STRINGS ${source} cases REGEX "^TEST(_F|_P)?\\(")
    foreach(case ${cases})
      string(REGEX REPLACE "^TEST[_FP]*\\(([A-Za-z0-9_]+).*" "\\1" suite "${case}")
      list(APPEND filter "${suite}.*" "*/${suite}.*")
    endforeach()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  endforeach()
  list(REMOVE_DUPLICATES filter)
  list(JOIN filter ":" filter)
  set(${out} "${filter}" PARENT_SCOPE)
endfunction()

# gradsync_test(NAME LABELS unit SOURCES a_test.cpp... [DEPS ...] [TORCH] [TIMEOUT seconds]
#   [PROGRAM p UNIT u] [EXCEPT pattern])
# Makes one GoogleTest program and registers its cases with ctest under the given labels. PROGRAM: they
# are a part of the program p, which several tests share, since to link LibTorch takes seconds; NAME is
# then a target that builds p. Sources of one UNIT of p are compiled at once. EXCEPT: but those cases.
# TORCH links LibTorch: the label torch, and the target torch_tests, have all of these.
function(gradsync_test name)
  cmake_parse_arguments(ARG "TORCH" "TIMEOUT;PROGRAM;UNIT;EXCEPT" "SOURCES;DEPS;LABELS" ${ARGN})
  list(TRANSFORM ARG_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  set(program ${name})
  set(arguments "")
  if(ARG_PROGRAM)
    set(program ${ARG_PROGRAM})
    gradsync_suites(filter ${ARG_SOURCES})
    if(ARG_EXCEPT)
      string(APPEND filter "-${ARG_EXCEPT}")
    endif()
    set(arguments "--gtest_filter=${filter}")
  endif()
  gradsync_test_program(${program} ${ARG_TORCH})
  target_sources(${program} PRIVATE ${ARG_SOURCES})
  target_link_libraries(${program} PRIVATE ${ARG_DEPS})
  if(ARG_PROGRAM)
    set_target_properties(${program} PROPERTIES UNITY_BUILD_MODE GROUP)
    set_source_files_properties(${ARG_SOURCES} TARGET_DIRECTORY ${program}
      PROPERTIES UNITY_GROUP ${ARG_UNIT})
    add_custom_target(${name} DEPENDS ${program})
  endif()
  if(ARG_TORCH)
    list(APPEND ARG_LABELS torch)
    if(NOT TARGET torch_tests)
      add_custom_target(torch_tests)
    endif()
    add_dependencies(torch_tests ${program})
  endif()
  add_test(NAME ${name} COMMAND ${program} ${arguments})
  gradsync_test_properties(${name} LABELS ${ARG_LABELS} TIMEOUT ${ARG_TIMEOUT})
endfunction()

# The interpreter for tests written in Python: the one set-up made ready, else the system's.
if(GRADSYNC_PYTHON)
  set(GRADSYNC_TEST_PYTHON ${GRADSYNC_PYTHON})
else()
  find_package(Python3 3.11 COMPONENTS Interpreter REQUIRED)
  set(GRADSYNC_TEST_PYTHON ${Python3_EXECUTABLE})
endif()

# gradsync_python_test(NAME LABELS unit [FILE a.py] [ARGS ...] [ENVIRONMENT A=b...] [TIMEOUT seconds])
# Registers NAME.py of the caller's folder, or FILE, with ctest. It skips by exit status 77.
function(gradsync_python_test name)
  cmake_parse_arguments(ARG "" "FILE;TIMEOUT" "ARGS;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT ARG_FILE)
    set(ARG_FILE ${CMAKE_CURRENT_SOURCE_DIR}/${name}.py)
  endif()
  add_test(NAME ${name} COMMAND ${GRADSYNC_TEST_PYTHON} ${ARG_FILE} ${ARG_ARGS})
  set_tests_properties(${name} PROPERTIES
    SKIP_RETURN_CODE 77 ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;${ARG_ENVIRONMENT}")
  gradsync_test_properties(${name} LABELS ${ARG_LABELS} TIMEOUT ${ARG_TIMEOUT})
endfunction()

# gradsync_use_headers(TARGET PCH LINK lib... HEADERS <a.h>...)
# Compiles TARGET with the precompiled HEADERS, made once as gradsync_PCH. They are valid only under
# the definitions they were made with, so both link the same.
function(gradsync_use_headers target pch)
  cmake_parse_arguments(ARG "" "" "LINK;HEADERS" ${ARGN})
  target_link_libraries(${target} PUBLIC ${ARG_LINK})
  if(NOT TARGET gradsync_${pch})
    # Written once: its new time would have all be compiled anew, whenever a list of sources changes.
    if(NOT EXISTS ${CMAKE_BINARY_DIR}/${pch}.cpp)
      file(WRITE ${CMAKE_BINARY_DIR}/${pch}.cpp "")
    endif()
    add_library(gradsync_${pch} STATIC ${CMAKE_BINARY_DIR}/${pch}.cpp)
    target_link_libraries(gradsync_${pch} PUBLIC gradsync_flags ${ARG_LINK})
    target_precompile_headers(gradsync_${pch} PRIVATE ${ARG_HEADERS})
  endif()
  target_precompile_headers(${target} REUSE_FROM gradsync_${pch})
endfunction()

# What most files without torch include.
function(gradsync_use_common_headers target)
  gradsync_use_headers(${target} common_pch
    LINK gradsync::fmt nlohmann_json::nlohmann_json
    HEADERS <fmt/format.h> <fmt/ranges.h> <nlohmann/json.hpp> <filesystem> <fstream> <functional>)
endfunction()

# LibTorch's headers cost 10 to 20 s per translation unit: parse them once. It brings headers of a
# newer fmt than the system's library, which are made an archive of, too: as a part of each translation
# unit they would cost it 2 s. Both go together: every version of fmt has an inline namespace of its
# own.
function(gradsync_use_torch target)
  if(NOT TARGET gradsync_torch_fmt)
    add_library(gradsync_torch_fmt STATIC ${PROJECT_SOURCE_DIR}/harness/base/fmt_archive.cpp)
    target_link_libraries(gradsync_torch_fmt PUBLIC gradsync_flags gradsync::fmt gradsync::libtorch)
  endif()
  gradsync_use_headers(${target} torch_pch
    LINK gradsync_torch_fmt nlohmann_json::nlohmann_json gradsync::libtorch
    HEADERS <torch/nn/module.h> <torch/csrc/distributed/c10d/reducer.hpp> <nlohmann/json.hpp> <fmt/format.h>)
endfunction()
