# SPDX-License-Identifier: Apache-2.0
#
# Warnings and the small macros every room uses.

find_program(ASHLAR_CCACHE ccache)
if(ASHLAR_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${ASHLAR_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

# Our own targets build without a warning; headers of others are SYSTEM.
function(ashlar_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Werror -Wno-unused-parameter -Wno-missing-field-initializers)
endfunction()

# A static library of one folder. ashlar_add_library(NAME sources... [LINK libs...])
function(ashlar_add_library name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
  ashlar_warnings(${name})
endfunction()

# A Catch2 program test_<name> and its CTest test <name>. ashlar_add_unit_test(NAME sources... [LINK libs...])
function(ashlar_add_unit_test name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(test_${name} ${ARG_UNPARSED_ARGUMENTS})
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
  target_link_libraries(test_${name} PRIVATE ashlar_catch_main ${ARG_LINK})
  ashlar_warnings(test_${name})
  add_test(NAME ${name} COMMAND test_${name})
endfunction()
