// SPDX-License-Identifier: Apache-2.0
//
// Kernels that differ in numbers only: the layers of a convolutional network are alike except for extents and strides.

#ifndef ASHLAR_COMPILER_TARGET_CPU_SHARED_KERNELS_H
#define ASHLAR_COMPILER_TARGET_CPU_SHARED_KERNELS_H

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace ashlar::cpu {

// A kernel that runs the code of a function that several share.
struct SharingKernel {
  std::string name;
  std::string code;             // the function
  std::vector<int64_t> numbers; // its arguments after begin and end; the bits of an f32
};

// Makes one function of each group of kernels (func.func with exec.extent) that are equal except for sizes of buffers and for extents,
// strides and factors that cost nothing to pass: the first of the group, under its name with ".any" behind it, takes those numbers as
// arguments, and the others are erased. Returns all kernels of such groups. One that differs in nothing has no numbers and the name of the
// first as `code`.
//   loop_1: for i in 0..12544: for j in 0..96:  y[96 i + j] = ...      loop_1 = loop_1.any(12544, 96)
//   loop_2: for i in 0..784:   for j in 0..480: y[480 i + j] = ...     loop_2 = loop_1.any(784, 480)
// Time is linear in the size of the kernels.
std::vector<SharingKernel> shareCode(mlir::ModuleOp kernels);

} // namespace ashlar::cpu

#endif // ASHLAR_COMPILER_TARGET_CPU_SHARED_KERNELS_H
