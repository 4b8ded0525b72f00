# The test programs. tests/ROOM/*.cpp becomes the program test_ROOM and tests/STAGE/ROOM/*.cpp becomes test_STAGE_ROOM, a CTest test
# each, named after the folder: the folders mirror src. A program links the modules up to its stage, so that a change to a
# later one leaves it alone. scripts/stage.sh builds and runs the programs of one stage or room.

# Of folders whose tests need more than the modules up to the one of their name.
set(SMELT_TESTS_NEED_inspect device)    # cubins to read
set(SMELT_TESTS_NEED_import ops)        # which operators there are
set(SMELT_TESTS_NEED_plan run)          # what a planned segment computes shows when it runs
set(SMELT_TESTS_NEED_run profile)
set(SMELT_TESTS_NEED_conformance ops)
set(SMELT_TESTS_NEED_gpu profile)
set(SMELT_TESTS_NEED_faults report)

# smelt_modules_for(STAGE RESULT): the modules that tests of the stage link, the latest first.
function(smelt_modules_for stage result)
  set(last ${stage})
  if(DEFINED SMELT_TESTS_NEED_${stage})
    set(last ${SMELT_TESTS_NEED_${stage}})
  endif()
  list(FIND SMELT_MODULES ${last} index)
  if(index EQUAL -1)
    message(FATAL_ERROR "tests/${stage} is named after no module: say in cmake/Tests.cmake which one it needs")
  endif()
  math(EXPR count "${index} + 1")
  list(SUBLIST SMELT_MODULES 0 ${count} modules)
  list(TRANSFORM modules PREPEND smelt_)
  list(REVERSE modules)
  if(TARGET smelt_fuse AND "smelt_fuse" IN_LIST modules)
    list(PREPEND modules test_graphs)
  endif()
  set(${result} ${modules} PARENT_SCOPE)
endfunction()

# The quickest linker that is here, a third of the time of ld's.
include(CheckLinkerFlag)
foreach(linker mold lld gold)
  if(NOT SMELT_TEST_LINKER)
    check_linker_flag(CXX -fuse-ld=${linker} SMELT_HAS_${linker})
    if(SMELT_HAS_${linker})
      set(SMELT_TEST_LINKER -fuse-ld=${linker})
    endif()
  endif()
endforeach()

# smelt_test(NAME STAGE SOURCE…): the program test_NAME of a folder of the stage.
function(smelt_test name stage)
  add_executable(test_${name} ${ARGN})
  # Tests are compiled once and run once: optimising them costs more than it gains.
  target_compile_options(test_${name} PRIVATE -O0 ${SMELT_WARNINGS})
  target_link_options(test_${name} PRIVATE ${SMELT_TEST_LINKER})
  smelt_modules_for(${stage} modules)
  target_link_libraries(test_${name} PRIVATE test_support ${modules} GTest::gtest_main GTest::gmock)
  # One set of parsed headers for all programs that are compiled alike: those with OpenMP's flag, which comes with the devices.
  if(SMELT_PCH AND "smelt_device" IN_LIST modules)
    get_property(first GLOBAL PROPERTY SMELT_TESTS_PCH)
    if(first)
      target_precompile_headers(test_${name} REUSE_FROM ${first})
      target_compile_options(test_${name} PRIVATE -fpch-preprocess)
    else()
      smelt_precompile(test_${name} <fmt/format.h> <gmock/gmock.h> <gtest/gtest.h> [["ops/tactic_check.h"]])   # a path that is the same in every clone
      set_property(GLOBAL PROPERTY SMELT_TESTS_PCH test_${name})
    endif()
  endif()
endfunction()

# What the compiler says of the GPU's kernels, thousands of them: kept beside ccache's objects, for every clone
# (tests/ops/cuda/kernels_test.cpp).
if(DEFINED ENV{XDG_CACHE_HOME})
  set(cache_home $ENV{XDG_CACHE_HOME})
else()
  set(cache_home $ENV{HOME}/.cache)
endif()
set(SMELT_KERNEL_REPORTS ${cache_home}/smelt-tests/kernels CACHE PATH "Folder that keeps what compiling the tests' kernels gave")

# Programs whose tests CTest runs in several processes, side by side and each with a time limit of its own.
set(SMELT_SHARDS_ops_cuda 4)   # thousands of kernels, where nothing was kept of them

# smelt_run_test(NAME FOLDER): CTest runs test_NAME under the folder's path below tests; its shards, if it has some, as FOLDER/1 and so on.
function(smelt_run_test name folder)
  if(NOT SMELT_SHARDS_${name})
    smelt_run_shard(${name} ${folder})
    return()
  endif()
  math(EXPR last "${SMELT_SHARDS_${name}} - 1")
  foreach(index RANGE ${last})
    math(EXPR number "${index} + 1")
    smelt_run_shard(${name} ${folder}/${number} GTEST_TOTAL_SHARDS=${SMELT_SHARDS_${name}} GTEST_SHARD_INDEX=${index})
  endforeach()
endfunction()

# smelt_run_shard(NAME TEST VARIABLE=VALUE…): the CTest test of test_NAME with these in its environment.
function(smelt_run_shard name test)
  add_test(NAME ${test} COMMAND test_${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  # NVRTC, which needs no GPU, lies among the Python's wheels where PyTorch is one of them. Programs run side by side: threads
  # that wait for others do so without turning, which takes half the time of a core from tests of oneDNN's kernels.
  set_tests_properties(${test} PROPERTIES ENVIRONMENT "${ARGN};CUDA_PATH=${SMELT_CUDA_WHEELS};SMELT_CACHE_DIR=${CMAKE_BINARY_DIR}/test_cache;OMP_WAIT_POLICY=passive;SMELT_KERNEL_REPORTS=${SMELT_KERNEL_REPORTS}")
endfunction()

# The libraries of tests/support: what every test may use, and what builds graphs for rewrites.
function(smelt_test_libraries)
  add_library(test_support STATIC ${CMAKE_SOURCE_DIR}/tests/support/paths.cpp)
  target_compile_definitions(test_support PRIVATE SMELT_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
    SMELT_BINARY_DIR="${CMAKE_BINARY_DIR}" SMELT_PYTHON="${Python_EXECUTABLE}")
  target_include_directories(test_support PUBLIC ${CMAKE_SOURCE_DIR}/tests)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/support/*.cpp)
  list(REMOVE_ITEM sources ${CMAKE_SOURCE_DIR}/tests/support/paths.cpp)
  add_library(test_graphs STATIC ${sources})
  target_link_libraries(test_graphs PUBLIC test_support smelt_fuse)
endfunction()

# The fuzzer's corpus and the stages that it goes through, in every build.
function(smelt_replay_corpus target)
  set(folder ${CMAKE_BINARY_DIR}/fuzz_corpus)
  set(archive ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus.tar.xz)
  add_custom_command(OUTPUT ${folder}.stamp DEPENDS ${archive}
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${folder}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
    COMMAND ${CMAKE_COMMAND} -E chdir ${folder} ${CMAKE_COMMAND} -E tar xf ${archive}
    COMMAND ${CMAKE_COMMAND} -E touch ${folder}.stamp
    COMMENT "Unpacking the fuzzer's corpus" VERBATIM)
  target_sources(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests/fuzz/stages.cpp ${folder}.stamp)
endfunction()

# A driver and an NVML that are made up, and no NVRTC.
function(smelt_fakes target)
  foreach(fake "cuda;1" "nvidia-ml;1" "nvrtc;13")
    list(GET fake 0 library)
    list(GET fake 1 version)
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/faults/fake/${library}*.cpp)
    add_library(fake_${library} SHARED ${sources})
    target_include_directories(fake_${library} PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/tests)
    set_target_properties(fake_${library} PROPERTIES OUTPUT_NAME ${library} SOVERSION ${version}
                          LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fakes)
    add_dependencies(${target} fake_${library})
  endforeach()
  target_compile_definitions(${target} PRIVATE SMELT_FAKES="${CMAKE_BINARY_DIR}/fakes")
endfunction()

# smelt_tests(): every program, after the modules.
function(smelt_tests)
  find_package(GTest REQUIRED)
  smelt_test_libraries()
  set(tests ${CMAKE_SOURCE_DIR}/tests)
  file(GLOB folders LIST_DIRECTORIES true RELATIVE ${tests} CONFIGURE_DEPENDS ${tests}/* ${tests}/*/*)
  list(FILTER folders EXCLUDE REGEX "^(fuzz|kernel_forms|package|support|faults/fake)($|/)")
  foreach(folder ${folders})
    file(GLOB sources CONFIGURE_DEPENDS ${tests}/${folder}/*.cpp)
    if(NOT sources)
      continue()
    endif()
    string(REPLACE "/" "_" name ${folder})
    string(REGEX REPLACE "/.*" "" stage ${folder})
    smelt_test(${name} ${stage} ${sources})
    if(NOT folder STREQUAL "gpu")   # run where there is a GPU: scripts/gpu_tests.sh
      smelt_run_test(${name} ${folder})
    endif()
  endforeach()

  target_compile_options(test_ops_scan PRIVATE -O1)   # thousands of cases, when asked for
  set_target_properties(test_ops_scan PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)

  file(GLOB forms CONFIGURE_DEPENDS ${tests}/ops/cuda/*forms.cpp)
  target_sources(test_gpu PRIVATE ${tests}/conformance/cases.cpp ${forms}   # with ONNX's cases, and those of the operators' fuzzer
                 ${tests}/fuzz/operators/case.cpp ${tests}/fuzz/operators/agree.cpp)
  add_executable(kernel_forms EXCLUDE_FROM_ALL ${tests}/kernel_forms/main.cpp ${forms})   # a tool, which runs nothing by itself
  target_compile_options(kernel_forms PRIVATE -O0 ${SMELT_WARNINGS})
  smelt_modules_for(ops modules)
  target_link_libraries(kernel_forms PRIVATE test_support ${modules})
  smelt_replay_corpus(test_fuse)
  smelt_fakes(test_faults)
  if(SMELT_CUTLASS_INCLUDE AND EXISTS ${SMELT_CUDA_STANDARD_INCLUDE}/../crt/host_defines.h)   # without them its test says that it is skipped
    set_source_files_properties(${tests}/ops/cuda/cute_layouts_test.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS
      "-isystem;${SMELT_CUTLASS_INCLUDE};-isystem;${SMELT_CUDA_STANDARD_INCLUDE};-isystem;${SMELT_CUDA_STANDARD_INCLUDE}/..")
  endif()
  if(EXISTS ${SMELT_CUDA_WHEELS}/include/cuda.h)
    target_include_directories(test_device SYSTEM PRIVATE ${SMELT_CUDA_WHEELS}/include ${SMELT_CUDA_WHEELS}/../cudnn/include)
  endif()
  if(EXISTS ${SMELT_CUDA_WHEELS}/include/cuda_occupancy.h)   # of the wheel nvidia-cuda-runtime
    target_include_directories(test_inspect SYSTEM PRIVATE ${SMELT_CUDA_WHEELS}/include)
  endif()
  # The longest first, so that none is left over for one core at the end.
  set(cost 100)
  foreach(long ops/cuda/3 conformance ops/cuda/1 ops/cuda/2 ops/cuda/4 run device ops/conv ops/matmul faults)
    set_tests_properties(${long} PROPERTIES COST ${cost})
    math(EXPR cost "${cost} - 5")
  endforeach()
  # NVRTC has nothing in its cache on a new machine: 1,554 kernels of sm_90a alone take 5 minutes of a quick core.
  foreach(shard 1 2 3 4)
    set_tests_properties(ops/cuda/${shard} PROPERTIES TIMEOUT 2400)
  endforeach()
  # Two thousand models; ctest -LE slow leaves them out.
  set(longest 900)
  if(SMELT_SANITIZE)
    set(longest 3600)
  endif()
  set_tests_properties(conformance PROPERTIES LABELS slow TIMEOUT ${longest})
endfunction()
