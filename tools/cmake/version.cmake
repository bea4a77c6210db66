# SPDX-License-Identifier: Apache-2.0
#
# Writes OUTPUT from version.cpp.in where it would change: cmake -DROOT= -DVERSION= -DOUTPUT= -P version.cmake
execute_process(COMMAND git -C ${ROOT} rev-parse --short=10 HEAD OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(COMMIT unknown)
endif()
configure_file(${ROOT}/tools/cmake/version.cpp.in ${OUTPUT} @ONLY)
