# What distributions build their packages with; tests/python/test_hardening.py looks at the files that come out.

# CMake ends the RUNPATH of what it builds with an empty entry, which is the working directory: a library beside a model would be
# loaded. smelt_runpath(TARGET RUNPATH) builds with whole paths alone, those of the libraries and RUNPATH, the installed file's, so
# that there is room for it; smelt_install_runpath(FILE RUNPATH [COMPONENT…]) sets it in the installed file.
include(GNUInstallDirs)
function(smelt_runpath target runpath)
  get_target_property(library DNNL::dnnl IMPORTED_LOCATION_RELEASE)
  if(NOT library)
    get_target_property(library DNNL::dnnl LOCATION)
  endif()
  get_filename_component(folder ${library} DIRECTORY)
  set_target_properties(${target} PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "${folder};${runpath}")
endfunction()
function(smelt_install_runpath file runpath)
  install(CODE "file(RPATH_SET FILE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${file}\" NEW_RPATH \"${runpath}\")" ${ARGN})
endfunction()

if(SMELT_HARDEN)
  include(CheckPIESupported)
  check_pie_supported(LANGUAGES CXX)
  add_compile_options(-fstack-protector-strong)
  if(NOT SMELT_FUZZ AND NOT SMELT_SANITIZE AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize" AND NOT CMAKE_BUILD_TYPE STREQUAL Debug)
    add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)   # needs optimisation, and hides mistakes from sanitizers
  endif()
  add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
endif()
