# -DSMELT_SANITIZE=address,undefined builds everything, tests and the operators' fuzzer too, under these sanitizers; a report ends the
# process. -DSMELT_SANITIZE_PREBUILT=FOLDER takes ONNX's sources, which are not smelt's, from an ordinary build there.
set(SMELT_SANITIZE "" CACHE STRING "Sanitizers to build with, separated by commas: address,undefined")
set(SMELT_SANITIZE_PREBUILT "" CACHE PATH "An ordinary build whose ONNX sources a build with sanitizers links")
if(SMELT_SANITIZE)
  # Without optimisation a file compiles in two thirds of the time of -O1, and tests' models are small. Not vptr: ONNX's sources, where
  # they come from an ordinary build, were compiled without what it asks for.
  set(CMAKE_CXX_FLAGS_RELEASE "-O0")
  add_compile_options(-fsanitize=${SMELT_SANITIZE} -fno-sanitize=vptr -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${SMELT_SANITIZE})
endif()

# smelt_shared_sanitizers(TARGET): the target takes the sanitizers from their shared library, for what runs inside of Python or is started by
# it: there that library is loaded before all others (scripts/sanitized_tests.sh). It is what g++ does anyway.
function(smelt_shared_sanitizers target)
  if(NOT SMELT_SANITIZE OR NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    return()
  endif()
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libclang_rt.asan-${CMAKE_SYSTEM_PROCESSOR}.so
                  OUTPUT_VARIABLE library OUTPUT_STRIP_TRAILING_WHITESPACE)
  get_filename_component(folder ${library} DIRECTORY)
  target_link_options(${target} PRIVATE -shared-libasan -Wl,-rpath,${folder})
endfunction()
