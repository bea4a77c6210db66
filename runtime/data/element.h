// SPDX-License-Identifier: Apache-2.0
//
// Element types of data sets and .npy files: those of the ABI that such files hold, and unsigned bytes.

#ifndef ASHLAR_RUNTIME_DATA_ELEMENT_H
#define ASHLAR_RUNTIME_DATA_ELEMENT_H

#include "runtime/abi/sample_shapes.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ashlar::rt {

// Type of one element as it is stored. A bool is one byte holding 0 or 1.
enum class Element { kF32, kF64, kI32, kI64, kU8, kBool, kF16 };

// Returns the bytes of one element.
size_t elementBytes(Element element);

// Returns the name that errors call the type, like "f32" or "u8".
const char *elementName(Element element);

// Finds the element type of an ashlar_rt_dtype. Returns false when there is none (bf16).
bool elementOfDtype(uint32_t dtype, Element &element);

// Converts `count` elements from `from` to `to` as to = from * scale + shift, computed in f64 when either side is wider than f32, else in
// f32; to f16 it rounds once more. Conversion to an integer rounds towards zero, and to the nearest it can hold; to bool it tells whether
// the value is not 0. Does not allocate.
void convertElements(Element fromType, const void *from, Element toType, void *to, int64_t count, double scale, double shift);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DATA_ELEMENT_H
