# What smelt builds with. Debian's packages: fmt, SQLite, protobuf, RE2, nlohmann-json, CLI11, GoogleTest. PyPI's wheels, from
# the Python that configures the build (Python_EXECUTABLE): onnx (its C++ sources) and oneDNN.
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
find_package(fmt REQUIRED)
get_target_property(FMT_INCLUDE_DIRS fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
find_package(SQLite3 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)

# RE2: programs take the archive into them, where one links as it is (without Abseil's). Shared libraries cannot, for it is not
# position-independent: they need the shared one.
find_path(RE2_INCLUDE_DIR re2/re2.h REQUIRED)
find_library(RE2_LIBRARY re2 REQUIRED)
find_library(RE2_ARCHIVE libre2.a)
set(SMELT_RE2 ${RE2_LIBRARY})
if(RE2_ARCHIVE)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_LIBRARIES ${RE2_ARCHIVE})
  check_cxx_source_compiles("#include <re2/re2.h>\nint main(int, char** text) { return RE2::FullMatch(*text, RE2(*text)); }" SMELT_RE2_IN_PROGRAMS)
  unset(CMAKE_REQUIRED_LIBRARIES)
  if(SMELT_RE2_IN_PROGRAMS)
    set(SMELT_RE2 $<IF:$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>,${RE2_ARCHIVE},${RE2_LIBRARY}>)
  endif()
endif()

# Where the wheels lie: in a virtual environment, or in the one that pip makes for a build.
execute_process(COMMAND ${Python_EXECUTABLE} -c "import os, onnx, importlib.metadata as m
print(os.path.dirname(onnx.__file__), onnx.__version__, *(f.locate().resolve().parent for f in m.files('onednn-devel-cpu-gomp') if f.name == 'dnnl-config.cmake'), sep=';')"
                OUTPUT_VARIABLE wheels OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_VARIABLE why)
if(failed)
  message(FATAL_ERROR "${Python_EXECUTABLE} lacks the wheels that smelt builds with (scripts/setup.sh build installs them into .venv): ${why}")
endif()
list(GET wheels 0 ONNX_SOURCE_DIR)
list(GET wheels 1 ONNX_VERSION)
list(GET wheels 2 dnnl_config_dir)
find_package(dnnl REQUIRED CONFIG PATHS ${dnnl_config_dir} NO_DEFAULT_PATH)

# PyTorch's wheel brings CUDA's: their headers and NVRTC serve tests, nothing is built with them.
execute_process(COMMAND ${Python_EXECUTABLE} -c "import sysconfig; print(sysconfig.get_path('purelib') + '/nvidia/cu13')"
                OUTPUT_VARIABLE SMELT_CUDA_WHEELS OUTPUT_STRIP_TRAILING_WHITESPACE)

# CuTe's headers and CUDA's, which they include: kernels in CuTe are compiled with them at run time, and tests evaluate its layouts.
get_filename_component(site_packages ${SMELT_CUDA_WHEELS}/../.. ABSOLUTE)
find_path(SMELT_CUTLASS_INCLUDE cute/tensor.hpp NO_DEFAULT_PATH
          PATHS $ENV{CUTLASS_PATH}/include ${site_packages}/cutlass_library/source/include)
find_path(SMELT_CUDA_STANDARD_INCLUDE cuda/std/tuple NO_DEFAULT_PATH
          PATHS $ENV{CUDA_PATH}/include/cccl ${SMELT_CUDA_WHEELS}/include/cccl /usr/local/cuda/include/cccl)

include(Onnx)
