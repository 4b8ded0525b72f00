# -DSMELT_FUZZ=ON with clang++: everything is built with AddressSanitizer and coverage, smelt's own code with
# UndefinedBehaviorSanitizer too, and each tests/fuzz/NAME_fuzz.cpp becomes a libFuzzer program of that name (tests/fuzz/README.md).
# -DSMELT_FUZZ_PREBUILT=FOLDER takes ONNX's sources and the operators from an ordinary build there, without sanitizers: a third of
# the time to build, and what reads and rewrites a model is instrumented all the same.
option(SMELT_FUZZ "Build the fuzz targets (clang++)" OFF)
set(SMELT_FUZZ_PREBUILT "" CACHE PATH "An ordinary build whose ONNX sources and operators the fuzz targets link")
set(SMELT_FUZZ_LEVEL "-O0" CACHE STRING "Optimisation of the fuzz targets: -O1 for long runs; building takes 1.6 times as long then")
option(SMELT_FUZZ_LINES "Count lines for llvm-cov in place of sanitizers and edges (scripts/fuzz_lines.sh)" OFF)
if(SMELT_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "SMELT_FUZZ needs clang++ (libFuzzer): configure with -DCMAKE_CXX_COMPILER=clang++")
  endif()
  if(SMELT_FUZZ_LINES)
    add_compile_options(${SMELT_FUZZ_LEVEL} -fprofile-instr-generate -fcoverage-mapping)
    add_link_options(-fprofile-instr-generate)
  else()
    # Counters alone: the mutator goes by ONNX's schemas and has no use for traced comparisons, which take a tenth of the time.
    # By its name from the build folder: an absolute one would make ccache's objects those of one clone.
    set(not_counted ${CMAKE_SOURCE_DIR}/tests/fuzz/not_counted.txt)
    file(RELATIVE_PATH ignored ${CMAKE_BINARY_DIR} ${not_counted})
    add_compile_options(${SMELT_FUZZ_LEVEL} -fsanitize=address -fsanitize-coverage=inline-8bit-counters,pc-table
      -fsanitize-coverage-ignorelist=${ignored} -fno-omit-frame-pointer -g1)
    if(CCACHE)
      list(PREPEND CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_EXTRAFILES=${not_counted})
    endif()
    add_link_options(-fsanitize=address,undefined)
  endif()
endif()

# smelt_prebuilt(NAME RESULT): the library NAME of an ordinary build as an imported target; RESULT is that build's folder, or OFF.
function(smelt_prebuilt name result)
  set(${result} OFF PARENT_SCOPE)
  if(SMELT_FUZZ AND SMELT_FUZZ_PREBUILT AND name MATCHES "^(onnx_sources|smelt_expr|smelt_device|smelt_ops)$")
    set(folder ${SMELT_FUZZ_PREBUILT})
  elseif(SMELT_SANITIZE AND SMELT_SANITIZE_PREBUILT AND name STREQUAL "onnx_sources")
    set(folder ${SMELT_SANITIZE_PREBUILT})
  else()
    return()
  endif()
  add_library(${name} STATIC IMPORTED GLOBAL)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${folder}/lib${name}.a)
  set(${result} ${folder} PARENT_SCOPE)
endfunction()

# smelt_fuzz_targets(MODULE…): after the modules; those that the targets use.
function(smelt_fuzz_targets)
  list(TRANSFORM ARGN PREPEND smelt_ OUTPUT_VARIABLE used)
  foreach(module ${SMELT_MODULES})
    get_target_property(type smelt_${module} TYPE)
    get_target_property(imported smelt_${module} IMPORTED)
    if(type STREQUAL STATIC_LIBRARY AND NOT imported AND NOT SMELT_FUZZ_LINES)
      # Not vptr: whether its cache misses depends on addresses, and a miss is an edge, so that coverage would be a matter of chance.
      target_compile_options(smelt_${module} PRIVATE -fsanitize=undefined -fno-sanitize=vptr -fno-sanitize-recover=undefined)
    endif()
  endforeach()
  # The mutator's reflection over ONNX's messages: the generated classes are lite ones.
  set(descriptors ${CMAKE_BINARY_DIR}/onnx.descriptors)
  add_custom_command(OUTPUT ${descriptors} DEPENDS ${ONNX_SOURCE_DIR}/onnx-ml.proto
    COMMAND ${Protobuf_PROTOC_EXECUTABLE} --proto_path=${ONNX_SOURCE_DIR} --descriptor_set_out=${descriptors} onnx-ml.proto)
  add_custom_target(onnx_descriptors DEPENDS ${descriptors})
  add_library(fuzz_support STATIC ${CMAKE_SOURCE_DIR}/tests/fuzz/mutator.cpp ${CMAKE_SOURCE_DIR}/tests/fuzz/stages.cpp)
  target_compile_definitions(fuzz_support PRIVATE ONNX_DESCRIPTORS="${descriptors}")
  target_include_directories(fuzz_support PUBLIC ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(fuzz_support PUBLIC ${used})
  add_dependencies(fuzz_support onnx_descriptors)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fuzz/*_fuzz.cpp)
  foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_libraries(${name} PRIVATE fuzz_support)
  endforeach()
endfunction()
