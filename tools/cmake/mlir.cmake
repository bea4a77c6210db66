# SPDX-License-Identifier: Apache-2.0
#
# MLIR and LLVM as shared libraries, the two precompiled headers, and the macros for dialects and passes.

find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
message(STATUS "MLIR ${LLVM_PACKAGE_VERSION} in ${MLIR_DIR}")
set(LLVM_LINK_LLVM_DYLIB ON)
set(MLIR_LINK_MLIR_DYLIB ON)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)
separate_arguments(ASHLAR_LLVM_DEFINITIONS NATIVE_COMMAND ${LLVM_DEFINITIONS})

# One target that carries headers, definitions and the two shared libraries.
add_library(ashlar_mlir INTERFACE)
target_include_directories(ashlar_mlir SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
# mlir_tablegen takes its include path from the directory.
include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
include_directories(${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
target_compile_definitions(ashlar_mlir INTERFACE ${ASHLAR_LLVM_DEFINITIONS})
target_link_libraries(ashlar_mlir INTERFACE MLIR LLVM)

# Compiles a header for targets that start from it. ashlar_add_pch(NAME header [DEPENDS tablegen targets...])
function(ashlar_add_pch name header)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  if(ASHLAR_PCH)
    add_library(${name} OBJECT ${PROJECT_SOURCE_DIR}/tools/cmake/pch.cpp)
    target_link_libraries(${name} PUBLIC ashlar_mlir)
    target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
    ashlar_warnings(${name})
    target_compile_options(${name} PRIVATE -Xclang -fno-pch-timestamp)
    target_precompile_headers(${name} PRIVATE ${header})
    if(ARG_DEPENDS)
      add_dependencies(${name} ${ARG_DEPENDS})
    endif()
  endif()
endfunction()
ashlar_add_pch(ashlar_pch ${PROJECT_SOURCE_DIR}/tools/cmake/pch.h)

# Lets `target` start from a precompiled header. It must build without it too.
function(ashlar_use_pch target pch)
  if(ASHLAR_PCH)
    target_precompile_headers(${target} REUSE_FROM ${pch})
    target_compile_options(${target} PRIVATE -Xclang -fno-pch-timestamp)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL EXECUTABLE)
      target_compile_options(${target} PRIVATE -fPIC) # as the header is compiled
    endif()
  endif()
endfunction()

# A static library of one folder that uses MLIR.
# ashlar_add_mlir_library(NAME sources... [LINK libs...] [DEPENDS tablegen targets...])
function(ashlar_add_mlir_library name)
  cmake_parse_arguments(ARG "" "" "LINK;DEPENDS" ${ARGN})
  ashlar_add_library(${name} ${ARG_UNPARSED_ARGUMENTS} LINK ashlar_mlir ${ARG_LINK})
  ashlar_use_pch(${name} ashlar_pch)
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
endfunction()

# A Catch2 program that uses MLIR, as ashlar_add_unit_test has it.
function(ashlar_add_mlir_unit_test name)
  ashlar_add_unit_test(${name} ${ARGN})
  ashlar_use_pch(test_${name} ashlar_test_pch)
endfunction()

# Generates ops, types, attributes and the dialect class from dialects/<name>/<name>.td into the same folder of the build tree.
# Target: ashlar_<name>_inc_gen. ENUMS and INTERFACES are td files of their own: enums are generated from them with all that they include.
# The ops of APART, which the root includes where ASHLAR_APART is not defined, have headers of their own.
function(ashlar_add_dialect name)
  cmake_parse_arguments(ARG "" "" "APART;ENUMS;INTERFACES" ${ARGN})
  set(LLVM_TARGET_DEFINITIONS ${name}.td)
  mlir_tablegen(${name}_ops.h.inc -gen-op-decls -DASHLAR_APART)
  mlir_tablegen(${name}_ops.cpp.inc -gen-op-defs -DASHLAR_APART)
  mlir_tablegen(${name}_dialect.h.inc -gen-dialect-decls -dialect=${name})
  mlir_tablegen(${name}_dialect.cpp.inc -gen-dialect-defs -dialect=${name})
  mlir_tablegen(${name}_attrs.h.inc -gen-attrdef-decls -attrdefs-dialect=${name})
  mlir_tablegen(${name}_attrs.cpp.inc -gen-attrdef-defs -attrdefs-dialect=${name})
  mlir_tablegen(${name}.md -gen-dialect-doc -dialect=${name})
  foreach(ops ${ARG_APART})
    set(LLVM_TARGET_DEFINITIONS ${ops}.td)
    mlir_tablegen(${ops}.h.inc -gen-op-decls)
    mlir_tablegen(${ops}.cpp.inc -gen-op-defs)
  endforeach()
  foreach(enums ${ARG_ENUMS})
    set(LLVM_TARGET_DEFINITIONS ${enums}.td)
    mlir_tablegen(${enums}.h.inc -gen-enum-decls)
    mlir_tablegen(${enums}.cpp.inc -gen-enum-defs)
  endforeach()
  foreach(interface ${ARG_INTERFACES})
    set(LLVM_TARGET_DEFINITIONS ${interface}.td)
    mlir_tablegen(${interface}.h.inc -gen-op-interface-decls)
    mlir_tablegen(${interface}.cpp.inc -gen-op-interface-defs)
  endforeach()
  add_public_tablegen_target(ashlar_${name}_inc_gen)
endfunction()

# Generates the pass declarations of passes/<room>/passes.td. Target: ashlar_<room>_passes_inc_gen; register function: register<Group>Passes().
# ENUMS: .td files of enums beside it.
function(ashlar_add_passes_td room group)
  cmake_parse_arguments(ARG "" "" "ENUMS" ${ARGN})
  set(LLVM_TARGET_DEFINITIONS passes.td)
  mlir_tablegen(passes.h.inc -gen-pass-decls -name ${group})
  mlir_tablegen(passes.md -gen-pass-doc)
  foreach(enums ${ARG_ENUMS})
    set(LLVM_TARGET_DEFINITIONS ${enums}.td)
    mlir_tablegen(${enums}.h.inc -gen-enum-decls)
    mlir_tablegen(${enums}.cpp.inc -gen-enum-defs)
  endforeach()
  add_public_tablegen_target(ashlar_${room}_passes_inc_gen)
endfunction()
