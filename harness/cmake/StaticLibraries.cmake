# The libraries that the programs are linked with, so that nothing but the C and C++ libraries has to
# be installed where they run: gradsync::fmt, gradsync::spdlog, gradsync::hwloc and gradsync::zlib.
# Each is the distribution's archive where it has one. Debian has none of fmt, whose 9.1 is made of its
# headers here, and none of libudev, which only hwloc wants and which it can do without. What is found
# as a shared library alone is linked so: the program works, on this machine.
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(ZLIB REQUIRED)

# Who compiles against an archive sees what who compiles against fmt::fmt sees.
find_library(GRADSYNC_FMT_ARCHIVE libfmt.a)
add_library(gradsync_fmt INTERFACE)
add_library(gradsync::fmt ALIAS gradsync_fmt)
if(GRADSYNC_FMT_ARCHIVE OR fmt_VERSION VERSION_LESS 10)
  foreach(property COMPILE_DEFINITIONS SYSTEM_INCLUDE_DIRECTORIES)
    string(REPLACE SYSTEM_ "" of_fmt ${property})
    set_target_properties(gradsync_fmt PROPERTIES
      INTERFACE_${property} $<TARGET_PROPERTY:fmt::fmt,INTERFACE_${of_fmt}>)
  endforeach()
  if(GRADSYNC_FMT_ARCHIVE)
    target_link_libraries(gradsync_fmt INTERFACE ${GRADSYNC_FMT_ARCHIVE})
  else()
    add_library(gradsync_fmt_archive STATIC ${PROJECT_SOURCE_DIR}/harness/base/fmt_archive.cpp)
    target_link_libraries(gradsync_fmt INTERFACE gradsync_fmt_archive)
  endif()
else()
  target_link_libraries(gradsync_fmt INTERFACE fmt::fmt)
endif()

add_library(gradsync_spdlog INTERFACE)
add_library(gradsync::spdlog ALIAS gradsync_spdlog)
foreach(property COMPILE_DEFINITIONS INCLUDE_DIRECTORIES)
  set_target_properties(gradsync_spdlog PROPERTIES
    INTERFACE_${property} $<TARGET_PROPERTY:spdlog::spdlog_header_only,INTERFACE_${property}>)
endforeach()
target_link_libraries(gradsync_spdlog INTERFACE gradsync::fmt Threads::Threads)

find_library(GRADSYNC_ZLIB NAMES libz.a z REQUIRED)
add_library(gradsync_zlib INTERFACE)
add_library(gradsync::zlib ALIAS gradsync_zlib)
target_include_directories(gradsync_zlib SYSTEM INTERFACE ${ZLIB_INCLUDE_DIRS})
target_link_libraries(gradsync_zlib INTERFACE ${GRADSYNC_ZLIB})

find_library(GRADSYNC_HWLOC NAMES libhwloc.a hwloc REQUIRED)
add_library(gradsync_hwloc INTERFACE)
add_library(gradsync::hwloc ALIAS gradsync_hwloc)
target_link_libraries(gradsync_hwloc INTERFACE ${GRADSYNC_HWLOC})
if(GRADSYNC_HWLOC MATCHES "[.]a$")
  add_library(gradsync_no_udev STATIC ${PROJECT_SOURCE_DIR}/harness/launch/udev_unavailable.cpp)
  target_link_libraries(gradsync_hwloc INTERFACE gradsync_no_udev m ${CMAKE_DL_LIBS} Threads::Threads)
endif()
