# smelt_install_licences(FOLDER [COMPONENT…]): the licence texts of what the wheel carries (NOTICE lists it), taken from where
# each comes from: Debian's packages and PyPI's wheels.
function(smelt_install_licences folder)
  set(from_debian libprotobuf-dev libsqlite3-dev libre2-dev libfmt-dev libcli11-dev nlohmann-json3-dev libgomp1)
  set(from_pypi onnx nanobind onednn-cpu-gomp)
  foreach(package ${from_debian})
    install(FILES /usr/share/doc/${package}/copyright DESTINATION ${folder} RENAME ${package}.txt ${ARGN})
  endforeach()
  foreach(package ${from_pypi})
    execute_process(COMMAND ${Python_EXECUTABLE} -c "from importlib.metadata import distribution as d
print(*(f.locate().resolve() for f in d('${package}').files if f.name in ('LICENSE', 'NOTICE', 'THIRD-PARTY-PROGRAMS')), sep=';')"
                    OUTPUT_VARIABLE texts OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    install(FILES ${texts} DESTINATION ${folder}/${package} ${ARGN})
  endforeach()
endfunction()
