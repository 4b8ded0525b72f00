# The Python package: build/python/smelt holds the module, its stubs and the Python files, ready for PYTHONPATH; in a wheel
# build (scikit-build-core) the same goes into the wheel together with the command and the shared libraries it needs.
execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_dir OUTPUT_STRIP_TRAILING_WHITESPACE
                RESULT_VARIABLE nanobind_missing ERROR_QUIET)
if(nanobind_missing)
  message(STATUS "nanobind not found: the Python module is left out (pip install nanobind)")
  return()
endif()
list(APPEND CMAKE_PREFIX_PATH ${nanobind_dir})
find_package(nanobind CONFIG REQUIRED)

set(package_dir ${CMAKE_BINARY_DIR}/python/smelt)
nanobind_add_module(smelt_ext NB_STATIC NOMINSIZE python/smelt_ext.cpp python/python_api.cpp python/direct_runs.cpp
                   python/numpy_arrays.cpp)
target_include_directories(smelt_ext PRIVATE python)
set_source_files_properties(python/python_api.cpp PROPERTIES COMPILE_DEFINITIONS SMELT_VERSION="${PROJECT_VERSION}")
target_link_libraries(smelt_ext PRIVATE smelt_report)
smelt_shared_sanitizers(smelt_ext)
# ONNX's functions ask for default visibility; the onnx wheel's own, of another version perhaps, live in the same process.
set_target_properties(smelt_ext PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${package_dir}
                      LINK_FLAGS "-Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/module.map"
                      LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/module.map)

smelt_runpath(smelt_ext "$ORIGIN/${CMAKE_INSTALL_LIBDIR}")

file(GLOB python_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/smelt/*.py ${CMAKE_SOURCE_DIR}/python/smelt/py.typed)
foreach(file ${python_files})
  get_filename_component(name ${file} NAME)
  add_custom_command(OUTPUT ${package_dir}/${name} COMMAND ${CMAKE_COMMAND} -E copy ${file} ${package_dir}/${name} DEPENDS ${file})
  list(APPEND copied ${package_dir}/${name})
endforeach()
add_custom_target(smelt_python ALL DEPENDS ${copied})
if(SMELT_SANITIZE)   # it is not installed, and a Python without the sanitizers' library cannot read its stubs from it
  return()
endif()
nanobind_add_stub(smelt_ext_stub MODULE smelt_ext OUTPUT ${package_dir}/smelt_ext.pyi PYTHON_PATH ${package_dir} DEPENDS smelt_ext)

if(NOT TARGET smelt)
  return()
endif()
# The component "python" is what goes into the wheel: the module, the command, the libraries they need, the licences.
install(TARGETS smelt_ext LIBRARY DESTINATION smelt COMPONENT python EXCLUDE_FROM_ALL)
smelt_install_runpath(smelt/$<TARGET_FILE_NAME:smelt_ext> "$ORIGIN/${CMAKE_INSTALL_LIBDIR}" COMPONENT python EXCLUDE_FROM_ALL)
install(FILES ${package_dir}/smelt_ext.pyi DESTINATION smelt COMPONENT python EXCLUDE_FROM_ALL)
install(TARGETS smelt RUNTIME DESTINATION smelt/bin COMPONENT python EXCLUDE_FROM_ALL)
smelt_install_runpath(smelt/bin/smelt "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}" COMPONENT python EXCLUDE_FROM_ALL)
smelt_install_libraries(smelt_ext smelt/${CMAKE_INSTALL_LIBDIR} "dnnl;protobuf;sqlite3;re2;gomp" COMPONENT python EXCLUDE_FROM_ALL)
include(Licences)
smelt_install_licences(smelt/licences COMPONENT python EXCLUDE_FROM_ALL)
