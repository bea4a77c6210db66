// SPDX-License-Identifier: Apache-2.0
//
// Sizes and names of the element types of the ABI.

#ifndef ASHLAR_RUNTIME_BASE_DTYPE_H
#define ASHLAR_RUNTIME_BASE_DTYPE_H

#include "runtime/abi/ashlar_rt.h"

#include <cstddef>
#include <cstdint>

namespace ashlar::rt {

// Returns the bytes of one element; 0 for a value that is no ashlar_rt_dtype.
inline size_t dtypeBytes(uint32_t dtype) {
  switch (dtype) {
  case ASHLAR_RT_F64:
  case ASHLAR_RT_I64:
    return 8;
  case ASHLAR_RT_F32:
  case ASHLAR_RT_I32:
    return 4;
  case ASHLAR_RT_F16:
  case ASHLAR_RT_BF16:
    return 2;
  case ASHLAR_RT_BOOL:
    return 1;
  default:
    return 0;
  }
}

// Returns the name that errors call the type, like "f32".
inline const char *dtypeName(uint32_t dtype) {
  static const char *const names[] = {"unknown", "f32", "f64", "i32", "i64", "bool", "f16", "bf16"};
  return names[dtype <= ASHLAR_RT_BF16 ? dtype : 0];
}

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_BASE_DTYPE_H
