# What smelt builds with. Debian's packages: fmt, SQLite, protobuf, nlohmann-json, CLI11, GoogleTest. PyPI's wheels, from
# the Python that configures the build (SMELT_PYTHON_EXECUTABLE): onnx (its C++ sources) and oneDNN.
find_package(Python 3.9 REQUIRED COMPONENTS Interpreter Development.Module)
find_package(fmt REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)

# The wheels' folders: site-packages for onnx, the environment's root for oneDNN.
execute_process(COMMAND ${Python_EXECUTABLE} -c "import onnx, os, sys, sysconfig; print(os.path.dirname(onnx.__file__) + ';' + sys.prefix + ';' + onnx.__version__)"
                OUTPUT_VARIABLE wheels OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
list(GET wheels 0 ONNX_SOURCE_DIR)
list(GET wheels 1 wheel_prefix)
list(GET wheels 2 ONNX_VERSION)
find_package(dnnl REQUIRED CONFIG PATHS ${wheel_prefix}/lib/cmake ${wheel_prefix} NO_DEFAULT_PATH)

include(Onnx)
