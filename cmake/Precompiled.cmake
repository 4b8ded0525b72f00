# Headers of the standard library are most of what a source makes g++ read: they are parsed once for each module, and once for the tests, which
# saves about two fifths of the time that a source takes. Sources still include what they use: clang++ (the fuzz targets, scripts/lint.sh) and
# -DSMELT_PCH=OFF compile them without.
option(SMELT_PCH "Parse the standard library's headers once for each module (g++)" ON)
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU OR SMELT_SANITIZE)
  set(SMELT_PCH OFF)
endif()
set(SMELT_PCH_HEADERS <algorithm> <array> <atomic> <cmath> <cstdint> <cstring> <filesystem> <functional> <limits> <map> <memory> <mutex> <numeric>
    <optional> <random> <set> <span> <string> <string_view> <utility> <vector>)
if(SMELT_PCH AND CCACHE)   # ccache's manual, "Precompiled headers"
  list(PREPEND CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros)
endif()

# smelt_precompile(TARGET [HEADER…]): after the properties of its sources were set. A source with options of its own cannot read them.
function(smelt_precompile target)
  if(NOT SMELT_PCH)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources count)
  if(count LESS 4)
    return()
  endif()
  target_precompile_headers(${target} PRIVATE ${SMELT_PCH_HEADERS} ${ARGN})
  target_compile_options(${target} PRIVATE -fpch-preprocess)
  foreach(source ${sources})
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    get_source_file_property(definitions ${source} COMPILE_DEFINITIONS)
    if(options OR definitions)
      set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
endfunction()
