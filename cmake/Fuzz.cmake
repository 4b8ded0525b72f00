# -DSMELT_FUZZ=ON with clang++: everything is built with AddressSanitizer and coverage, smelt's own code with
# UndefinedBehaviorSanitizer too, and each tests/fuzz/NAME.cpp becomes a libFuzzer program of that name.
#   build/import_fuzz -max_total_time=60 NEW_INPUTS tests/fuzz/corpus
option(SMELT_FUZZ "Build the fuzz targets (clang++)" OFF)
if(SMELT_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "SMELT_FUZZ needs clang++ (libFuzzer): configure with -DCMAKE_CXX_COMPILER=clang++")
  endif()
  add_compile_options(-fsanitize=address,fuzzer-no-link -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=address,undefined)
endif()

# smelt_fuzz_targets(): after all modules.
function(smelt_fuzz_targets)
  foreach(module ${SMELT_MODULES})
    get_target_property(type smelt_${module} TYPE)
    if(type STREQUAL STATIC_LIBRARY)
      target_compile_options(smelt_${module} PRIVATE -fsanitize=undefined -fno-sanitize-recover=undefined)
    endif()
  endforeach()
  set(all ${SMELT_MODULES})
  list(TRANSFORM all PREPEND smelt_)
  list(REVERSE all)
  # The mutator's reflection over ONNX's messages: the generated classes are lite ones.
  set(descriptors ${CMAKE_BINARY_DIR}/onnx.descriptors)
  add_custom_command(OUTPUT ${descriptors} DEPENDS ${ONNX_SOURCE_DIR}/onnx-ml.proto
    COMMAND ${Protobuf_PROTOC_EXECUTABLE} --proto_path=${ONNX_SOURCE_DIR} --descriptor_set_out=${descriptors} onnx-ml.proto)
  add_custom_target(onnx_descriptors DEPENDS ${descriptors})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fuzz/*.cpp)
  foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_compile_definitions(${name} PRIVATE ONNX_DESCRIPTORS="${descriptors}")
    add_dependencies(${name} onnx_descriptors)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_libraries(${name} PRIVATE ${all})
  endforeach()
endfunction()
