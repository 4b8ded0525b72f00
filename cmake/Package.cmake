# The C++ package: libsmelt.so with the public headers, for find_package(smelt). Only what is marked SMELT_API is visible.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The modules that hold the public API go in whole; of the others, what they need.
add_library(smelt_shared SHARED $<TARGET_OBJECTS:smelt_base> $<TARGET_OBJECTS:smelt_run>)
target_link_libraries(smelt_shared PRIVATE smelt_run)
target_include_directories(smelt_shared INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set_target_properties(smelt_shared PROPERTIES OUTPUT_NAME smelt VERSION ${PROJECT_VERSION} SOVERSION 0 EXPORT_NAME smelt
                      LINK_FLAGS "-Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/smelt.map -Wl,-z,nodelete"
                      LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/smelt.map)
target_compile_features(smelt_shared INTERFACE cxx_std_20)

# smelt_install_libraries(TARGET FOLDER "REGEX…" [COMPONENT…]): the shared libraries that TARGET needs and whose names match,
# since the user's machine may not have them.
function(smelt_install_libraries target folder names)
  list(JOIN names " " names)
  install(CODE "
    file(GET_RUNTIME_DEPENDENCIES LIBRARIES $<TARGET_FILE:${target}> RESOLVED_DEPENDENCIES_VAR found UNRESOLVED_DEPENDENCIES_VAR missing
         PRE_INCLUDE_REGEXES ${names} PRE_EXCLUDE_REGEXES .*)
    if(missing)
      message(FATAL_ERROR \"${target}: these libraries were not found, so they cannot be installed beside it: \${missing}\")
    endif()
    foreach(library \${found})
      file(INSTALL DESTINATION \${CMAKE_INSTALL_PREFIX}/${folder} TYPE SHARED_LIBRARY FOLLOW_SYMLINK_CHAIN FILES \${library})
    endforeach()" ${ARGN})
endfunction()

smelt_runpath(smelt_shared "$ORIGIN")
install(TARGETS smelt_shared EXPORT smelt-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
smelt_install_runpath(${CMAKE_INSTALL_LIBDIR}/libsmelt.so.${PROJECT_VERSION} "$ORIGIN")
install(DIRECTORY include/smelt DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT smelt-targets NAMESPACE smelt:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/smelt)
configure_package_config_file(cmake/smelt-config.cmake.in ${CMAKE_BINARY_DIR}/smelt-config.cmake INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/smelt)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/smelt-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/smelt-config.cmake ${CMAKE_BINARY_DIR}/smelt-config-version.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/smelt)
smelt_install_libraries(smelt_shared ${CMAKE_INSTALL_LIBDIR} dnnl)   # from a wheel; the others are Debian's
if(TARGET smelt)
  install(TARGETS smelt RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  smelt_runpath(smelt "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  smelt_install_runpath(${CMAKE_INSTALL_BINDIR}/smelt "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
endif()
