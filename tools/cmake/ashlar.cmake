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

# Compiles the files of a room eight at a time: most of the work on a file is templates of MLIR and protobuf, which its neighbours use too.
# So a name without linkage is used once in a room. Each file must compile by itself too: ASHLAR_UNITY=OFF does so.
function(ashlar_compile_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${ASHLAR_UNITY} UNITY_BUILD_BATCH_SIZE 8)
endfunction()

# A static library of one folder. ashlar_add_library(NAME sources... [LINK libs...])
function(ashlar_add_library name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
  ashlar_warnings(${name})
  ashlar_compile_together(${name})
endfunction()

# Cases are compiled without optimization in the build that optimizes: code for thousands of checks is four times as fast to make, and what
# they check, in the libraries, is as it is.
set(ASHLAR_TEST_OPTIONS $<$<CONFIG:RelWithDebInfo>:-O0>)

# The command lines of tools run once: their parser, templates of a library, takes a third of the time to compile without optimization.
function(ashlar_command_line)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "${ASHLAR_TEST_OPTIONS}")
endfunction()

# A Catch2 program test_<name> and its CTest test <name>. ashlar_add_unit_test(NAME sources... [LINK libs...] [OPTIMIZED]). Files of cases,
# each with a namespace of its own, are compiled together; those that they share, by themselves. OPTIMIZED: for cases that compute long.
function(ashlar_add_unit_test name)
  cmake_parse_arguments(ARG "OPTIMIZED" "" "LINK" ${ARGN})
  add_executable(test_${name} ${ARG_UNPARSED_ARGUMENTS})
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
  target_link_libraries(test_${name} PRIVATE ashlar_catch_main ${ARG_LINK})
  ashlar_warnings(test_${name})
  ashlar_compile_together(test_${name})
  if(NOT ARG_OPTIMIZED)
    target_compile_options(test_${name} PRIVATE ${ASHLAR_TEST_OPTIONS})
  endif()
  foreach(source ${ARG_UNPARSED_ARGUMENTS})
    if(NOT source MATCHES "_test\\.cpp$")
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
  add_test(NAME ${name} COMMAND test_${name})
endfunction()

# Counts the Catch2 cases of sources that are not compiled here: those without a hidden tag, or those with the hidden tag TAG. Assumes that
# the tags stand on the line of TEST_CASE. ashlar_count_cases(VARIABLE sources... [TAG tag])
function(ashlar_count_cases variable)
  cmake_parse_arguments(ARG "" "TAG" "" ${ARGN})
  set(count 0)
  foreach(source ${ARG_UNPARSED_ARGUMENTS})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source})
    set(pattern [=[/^TEST_CASE\(/ && !/"\[\./]=])
    if(ARG_TAG)
      set(pattern "/^TEST_CASE\\(/ && /\"\\[${ARG_TAG}\\]/")
    endif()
    execute_process(COMMAND awk "${pattern} { ++n } END { print n + 0 }" ${CMAKE_CURRENT_SOURCE_DIR}/${source}
                    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    math(EXPR count "${count} + ${found}")
  endforeach()
  set(${variable} ${count} PARENT_SCOPE)
endfunction()

# Registers a test that cannot be built here: it is counted, and skipped with the reason. ashlar_skip_test(NAME REASON [CASES n])
function(ashlar_skip_test name reason)
  cmake_parse_arguments(ARG "" "CASES" "" ${ARGN})
  if(NOT DEFINED ARG_CASES)
    set(ARG_CASES 1)
  endif()
  add_test(NAME ${name} COMMAND ${PROJECT_SOURCE_DIR}/test/skipped.sh ${reason} ${ARG_CASES})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
endfunction()

# Counts the cases of sources that a Catch2 program lacks here as skipped. ashlar_skip_cases(NAME sources...)
function(ashlar_skip_cases name)
  ashlar_count_cases(count ${ARGN})
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT "ASHLAR_SKIPPED_CASES=${count}")
endfunction()
