# SPDX-License-Identifier: Apache-2.0
#
# cmake --install and cpack (docs/howto/install.md). Component "main" is all that a package for Debian has; component "libraries" makes it
# self-contained. Symbols of programs go to BUILD/symbols.

include(CMakePackageConfigHelpers)
set(ASHLAR_PROGRAMS ashlarc ashlar-calibrate ashlar-ckpt ashlar-data ashlar-opt ashlar-sim ashlar-zoo)

# Libraries of the package come first, then LLVM's where Debian has them.
set_target_properties(${ASHLAR_PROGRAMS} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/ashlar;${LLVM_LIBRARY_DIRS}")
install(TARGETS ${ASHLAR_PROGRAMS} RUNTIME DESTINATION bin COMPONENT main)
install(TARGETS ashlar_rt ARCHIVE DESTINATION lib COMPONENT main)
foreach(archive builtins jpeg png)
  install(FILES ${CMAKE_ARCHIVE_OUTPUT_DIRECTORY}/libashlar_${archive}.a DESTINATION lib COMPONENT main)
endforeach()
# Laid out as in the source, so that commands of the pages work there.
install(FILES README.md DESTINATION share/ashlar COMPONENT main)
install(DIRECTORY docs DESTINATION share/ashlar COMPONENT main)
install(PROGRAMS tools/supervise.sh DESTINATION share/ashlar/tools COMPONENT main)
install(FILES LICENSE DESTINATION share/doc/ashlar RENAME copyright COMPONENT main)

# What plugins compile against (docs/plugins.md).
install(DIRECTORY compiler dialects passes runtime/abi runtime/timeline DESTINATION include/ashlar COMPONENT main
        FILES_MATCHING PATTERN "*.h" PATTERN "*.td")
install(DIRECTORY ${PROJECT_BINARY_DIR}/compiler ${PROJECT_BINARY_DIR}/dialects ${PROJECT_BINARY_DIR}/passes DESTINATION include/ashlar
        COMPONENT main FILES_MATCHING PATTERN "*.inc" PATTERN "*.pb.h" PATTERN "CMakeFiles" EXCLUDE)
configure_package_config_file(tools/cmake/AshlarConfig.cmake.in ${PROJECT_BINARY_DIR}/AshlarConfig.cmake INSTALL_DESTINATION lib/cmake/Ashlar)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/AshlarConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/AshlarConfig.cmake ${PROJECT_BINARY_DIR}/AshlarConfigVersion.cmake tools/cmake/plugin.cmake
        DESTINATION lib/cmake/Ashlar COMPONENT main)

# Manual pages and completions, from what --help prints.
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/manual/done
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/package/manual.py ${PROJECT_VERSION} ${PROJECT_BINARY_DIR}/bin ${PROJECT_BINARY_DIR}/manual
  DEPENDS ${ASHLAR_PROGRAMS} tools/package/manual.py)
add_custom_target(ashlar_manual ALL DEPENDS ${PROJECT_BINARY_DIR}/manual/done)
install(DIRECTORY ${PROJECT_BINARY_DIR}/manual/share/ DESTINATION share COMPONENT main)

# Symbols first: the programs are stripped where they were installed.
install(CODE "execute_process(COMMAND ${PROJECT_SOURCE_DIR}/tools/package/split_symbols.sh \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\" ${PROJECT_BINARY_DIR}/symbols COMMAND_ERROR_IS_FATAL ANY)"
        COMPONENT main)
add_library(ashlar_compat SHARED tools/package/compat.c)
install(TARGETS ashlar_compat LIBRARY DESTINATION lib/ashlar COMPONENT libraries EXCLUDE_FROM_ALL)
install(CODE "execute_process(COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/package/bundle_libraries.py \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\" COMMAND_ERROR_IS_FATAL ANY)"
        COMPONENT libraries EXCLUDE_FROM_ALL)

set(CPACK_PACKAGE_NAME ashlar)
set(CPACK_PACKAGE_VENDOR Ashlar)
set(CPACK_PACKAGE_CONTACT "The Ashlar authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Graph compiler that turns an ONNX model and a job into one executable, for any number of ranks")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_FILE_NAME ashlar-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_ASHLAR_BUILD ${PROJECT_BINARY_DIR})
set(CPACK_GENERATOR "DEB;TZST")
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/tools/cmake/package_components.cmake)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "lld-22 | binutils")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "openmpi-bin")
include(CPack)
