# What the package for Python holds beside programs: data/ with the files that come with them, under
# the paths that they have here (harness/base/program_files.h). Python's own are named in
# pyproject.toml.
#
# GRADSYNC_PREBUILT names a folder of installed programs (gradsync/bin/...) to take as they are;
# nothing is then compiled. harness/python/release_wheel makes one for many versions of torch.
set(GRADSYNC_PREBUILT "" CACHE PATH "Installed programs to package, instead of building one")

set(package_data
  benchmarks/demo/*.py benchmarks/gates/*.json benchmarks/plans/*.json benchmarks/topologies/*.json
  models/profiles/*.json plot/*.py results/reference/*.json results/schema/*.json
  # The watcher of a torch that no library was built for is compiled where it is wanted.
  harness/watch/inject/hook/*.py harness/watch/inject/preload/*.cpp harness/watch/inject/preload/*.h
  # So are GPUs of paper, for each torch.
  harness/paper/gpu_models.* harness/paper/standins/*.cpp harness/paper/standins/*.h
  harness/paper/standins/nccl/*.cpp harness/paper/standins/nccl/*.h harness/launch/nvml_api.h
  harness/fit/recorder/*.cpp harness/fit/recorder/*.h)
foreach(pattern IN LISTS package_data)
  file(GLOB files RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/${pattern})
  foreach(file IN LISTS files)
    cmake_path(GET file PARENT_PATH folder)
    install(FILES ${file} DESTINATION gradsync/data/${folder} COMPONENT data)
  endforeach()
endforeach()

if(GRADSYNC_PREBUILT)
  install(DIRECTORY ${GRADSYNC_PREBUILT}/gradsync DESTINATION . USE_SOURCE_PERMISSIONS
    COMPONENT program)
endif()
