# onnx_sources: ONNX's own C++ (checker, shape inference, version converter, inliner, schemas), built from the sources
# that the onnx wheel ships, with Debian's protobuf. Everything but the Python binding.
find_package(Protobuf REQUIRED)

set(onnx_generated ${CMAKE_BINARY_DIR}/onnx_generated)
set(onnx_protos onnx-ml onnx-operators-ml onnx-data)
set(onnx_proto_sources "")
foreach(proto ${onnx_protos})
  add_custom_command(
    OUTPUT ${onnx_generated}/onnx/${proto}.pb.cc ${onnx_generated}/onnx/${proto}.pb.h
    COMMAND ${CMAKE_COMMAND} -E make_directory ${onnx_generated}
    COMMAND ${Protobuf_PROTOC_EXECUTABLE} --proto_path=${ONNX_SOURCE_DIR}/.. --cpp_out=${onnx_generated} onnx/${proto}.proto
    DEPENDS ${ONNX_SOURCE_DIR}/${proto}.proto
    COMMENT "protoc ${proto}")
  list(APPEND onnx_proto_sources ${onnx_generated}/onnx/${proto}.pb.cc)
endforeach()

# src/import/schema.cpp's list of the schemas in ONNX's operator sets, sorted: a line SMELT_SCHEMA(Clip, 13, Onnx) each.
set(onnx_schemas "")
foreach(header operator_sets.h operator_sets_ml.h)
  file(STRINGS ${ONNX_SOURCE_DIR}/defs/${header} lines REGEX "fn\\(GetOpSchema<")
  list(TRANSFORM lines REPLACE "^.*CLASS_NAME\\(([A-Za-z]+), ([0-9]+), ([A-Za-z0-9]+)\\).*$" "SMELT_SCHEMA(\\3, \\2, \\1)")
  list(APPEND onnx_schemas ${lines})
endforeach()
list(SORT onnx_schemas)
list(JOIN onnx_schemas "\n" onnx_schemas)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/onnx_schemas/onnx_schemas.def CONTENT "${onnx_schemas}\n" @ONLY)

file(GLOB_RECURSE onnx_cc ${ONNX_SOURCE_DIR}/*.cc)
list(FILTER onnx_cc EXCLUDE REGEX "cpp2py_export|/test/|/backend/|/fuzz/")
smelt_prebuilt(onnx_sources prebuilt)
if(prebuilt)
  set(onnx_generated ${prebuilt}/onnx_generated)
  set(kind INTERFACE)
else()
  add_library(onnx_sources STATIC ${onnx_cc} ${onnx_proto_sources})
  target_compile_options(onnx_sources PRIVATE -w)
  if(NOT SMELT_FUZZ)   # a minute less of compilation on two cores, and nothing of it is hot
    target_compile_options(onnx_sources PRIVATE -O1)
  endif()
  set(kind PUBLIC)
endif()
target_compile_definitions(onnx_sources ${kind} ONNX_ML=1 ONNX_NAMESPACE=onnx __STDC_FORMAT_MACROS)
# The wheel's folder goes last: ${onnx_generated} must win for the .pb.h files, and the headers are included as <onnx/…>.
target_include_directories(onnx_sources SYSTEM ${kind} ${onnx_generated} ${ONNX_SOURCE_DIR}/..)
target_link_libraries(onnx_sources ${kind} protobuf::libprotobuf)
if(NOT prebuilt)
  smelt_precompile(onnx_sources <onnx/onnx_pb.h>)
endif()
