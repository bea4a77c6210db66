# SPDX-License-Identifier: Apache-2.0
#
# Plugins, in this tree and by find_package(Ashlar) out of it: ASHLAR_INCLUDE_DIRS is set, and MLIR found.

list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)
# mlir_tablegen takes its include path from the directory.
include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
include_directories(${ASHLAR_INCLUDE_DIRS})

# A plugin: a shared library of the sources, with the dialect and the passes of a TableGen file FILE.td, from which FILE_ops, FILE_dialect
# and FILE_passes are made, .h.inc and, but for passes, .cpp.inc. The symbols of the compiler come from the program that loads it.
# ashlar_add_plugin(NAME sources... TD FILE.td DIALECT name PASSES Group)
function(ashlar_add_plugin name)
  cmake_parse_arguments(ARG "" "TD;DIALECT;PASSES" "" ${ARGN})
  get_filename_component(file ${ARG_TD} NAME_WE)
  set(LLVM_TARGET_DEFINITIONS ${ARG_TD})
  mlir_tablegen(${file}_ops.h.inc -gen-op-decls -dialect=${ARG_DIALECT})
  mlir_tablegen(${file}_ops.cpp.inc -gen-op-defs -dialect=${ARG_DIALECT})
  mlir_tablegen(${file}_dialect.h.inc -gen-dialect-decls -dialect=${ARG_DIALECT})
  mlir_tablegen(${file}_dialect.cpp.inc -gen-dialect-defs -dialect=${ARG_DIALECT})
  mlir_tablegen(${file}_passes.h.inc -gen-pass-decls -name=${ARG_PASSES})
  add_public_tablegen_target(${name}_inc_gen)
  add_library(${name} MODULE ${ARG_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
  separate_arguments(definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
  target_compile_definitions(${name} PRIVATE ${definitions})
  target_compile_features(${name} PRIVATE cxx_std_17)
  target_link_libraries(${name} PRIVATE MLIR LLVM)
  set_target_properties(${name} PROPERTIES PREFIX "")
  add_dependencies(${name} ${name}_inc_gen)
endfunction()
