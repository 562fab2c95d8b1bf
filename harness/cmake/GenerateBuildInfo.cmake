# Run at each build (cmake -P): writes build_info.cpp, touching it only when something changed.
execute_process(COMMAND git -C ${SOURCE_DIR} describe --always --dirty --exclude=* --abbrev=7
  OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  set(COMMIT unknown)
endif()
set(TIMING_VALID true)
if(BUILD_TYPE STREQUAL "Debug" OR SANITIZE)
  set(TIMING_VALID false)
endif()
configure_file(${SOURCE_DIR}/harness/base/build_info.cpp.in ${OUTPUT} @ONLY)
