// SPDX-License-Identifier: Apache-2.0
//
// Conversion of elements between the types of the ABI, as data sets and .npy files hold them.

#ifndef ASHLAR_RUNTIME_DATA_ELEMENT_H
#define ASHLAR_RUNTIME_DATA_ELEMENT_H

#include "runtime/abi/sample_shapes.h"
#include "runtime/base/dtype.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ashlar::rt {

// Converts `count` elements from `from` to `to` as to = from * scale + shift, computed in f64 when either side is wider than f32, else in
// f32; to f16 and bf16 it rounds once more. Conversion to an integer rounds towards zero, and saturates; to bool it is the test value != 0.
// The types are ashlar_rt_dtypes. Does not allocate.
void convertElements(uint32_t fromType, const void *from, uint32_t toType, void *to, int64_t count, double scale, double shift);

// The same, for all pairs of types; convertElements() has faster loops for some.
void convertAnyElements(uint32_t fromType, const void *from, uint32_t toType, void *to, int64_t count, double scale, double shift);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DATA_ELEMENT_H
