# SPDX-License-Identifier: Apache-2.0
#
# What each kind of package has: Debian's finds its libraries in other packages.
set(CPACK_INSTALL_CMAKE_PROJECTS "${CPACK_ASHLAR_BUILD};Ashlar;main;/")
if(NOT CPACK_GENERATOR STREQUAL DEB)
  list(APPEND CPACK_INSTALL_CMAKE_PROJECTS "${CPACK_ASHLAR_BUILD};Ashlar;libraries;/")
endif()
