// SPDX-License-Identifier: Apache-2.0
//
// What a target can, as far as the compiler chooses by it: one row a target. The kernels of each are in passes/lower/kernels/cpu and gpu,
// its code generator in compiler/target, its row of the runtime in runtime/run/target_runtime.cpp.

#ifndef ASHLAR_DIALECTS_EXEC_TARGET_TRAITS_H
#define ASHLAR_DIALECTS_EXEC_TARGET_TRAITS_H

#include "dialects/exec/exec.h"

#include <optional>

namespace ashlar::exec {

// Masks of attention besides causal ones: floats and bools; or floats of the operands' type for all rows and for a multiple of 8 keys.
enum class AttentionMasks { All, LikeOperands };

// What the library's attention takes, of operands and a result of one type.
struct AttentionTraits {
  bool takesF32, takesBf16, takesF16;
  AttentionMasks masks;
  bool caps;           // softcaps of scores, and windows of causal ones
  bool drops;          // weights at random, by indices of their own
  bool shiftsDiagonal; // a causal one has any diagonal and any numbers of rows and keys; else as many, from the first ones on
  int64_t leastKeys;
  int64_t widthMultiple, mostWidth; // of queries and values
  bool expandsWell;                 // written out again, the op costs no more than the products and the softmax that it was made of
};

struct TargetTraits {
  // Of the library's matrix products.
  bool takesNarrow;                     // bf16 and f16 as they are, added up in f32; the sums can be given in f32
  bool takesBytes;                      // integers of 8 bits, signed or not, added up in i32
  bool hasTf32;                         // may round operands of f32 to tf32
  bool sumsOperandRows;                 // the sums over the rows of an operand come with the product
  bool joinsReshaped;                   // what follows a product of merged rows in its own shape is computed before the change of shape
  llvm::ArrayRef<Epilogue> activations; // of the results, before they are stored
  llvm::ArrayRef<Epilogue> slopes; // activations whose gradients come with a product, from a tensor that the activation's product writes

  AttentionTraits attention;
  // Most columns that the results of one generated kernel of attention have, of f32, bf16 or f16; 0: there is no such kernel.
  int64_t attentionColumns;

  // Of the library's convolutions, which have their channels last.
  bool convolvesNarrow;    // bf16 and f16 as they are, added up in f32
  bool givesConvolvedSums; // of bf16 and f16: a result in f32; else it is of their type
  bool weightsLast;        // with the channels of the weights last, too
  bool padsEvenly;         // with as much padding behind a dim as in front of it
  bool joinsConvolutions;  // bias, a tensor to add and an activation come with the convolution
  bool ordersWeights;      // has an order of its own for the weights, in which it can keep them

  // Of generated kernels.
  bool scattersInRegisters; // a scatter holds its sums in f32 until they are complete
  bool cutsLoops;           // a kernel takes the range of its outermost loop that it is to run
  bool sharesRows;          // several threads work on a row, and do not wait for each other before results are stored
  bool hasBlocks;           // a kernel is a grid of blocks of threads: reductions are split until there are enough of them
  int64_t mostCodeAgain;    // scalar instructions that take no longer than to store an element and to read it again
  int64_t launchBytes;      // a kernel that moves less spends a fifth of its time, or more, on its launch; 0: it is called

  bool takesConditions; // the runtime leaves instructions out where a condition does not hold; else they run and their results are selected
  bool insertsRows;     // the runtime writes rows into a tensor and leaves the others; else they are selected, element by element

  // Of collectives.
  bool combinesShort;       // integers of 16 bits
  bool meetsInSharedMemory; // ranks of a host combine values in memory that they share; other hosts' messages are staged
  int64_t handOverPs;       // to hand a collective to the channel and to learn of its end: two threads wake each other; 0: it has a stream

  // Of memory.
  int64_t rowAlignment; // bytes: a row that moves in a repeat begins at multiples, or else it is copied; 1: at any element
  bool hasDeviceMemory; // arenas, constants and batches lie in one block of the device, in parts of its alignment, not in the host's memory
  bool fixedWorkspace;  // a device has one workspace of a fixed size for library calls; else each thread has what its calls ask for

  // Of executables and machines.
  bool playsDevices; // a rank can play several devices in turn
  bool hasPresets;   // the rates of its devices are on data sheets (machine.preset of a job); else --calibrate measures them
};

const TargetTraits &traitsOf(Target target);

// What an attention makes of its scores.
struct AttentionForm {
  mlir::RankedTensorType mask;     // null: none; lowering repeats it for all rows where the library asks for them
  std::optional<int64_t> diagonal; // of a causal one
  int64_t window = 0;              // of that; 0: none
  double softcap = 0;              // 0: none
  bool drops = false;              // has a dropout
  bool shifts = false;             // of a causal one: rows and keys have positions, which are known when it runs
};

// Whether a target has a library call for an attention with operands of these types.
bool takesAttention(Target target, mlir::RankedTensorType query, mlir::RankedTensorType key, mlir::RankedTensorType value,
                    const AttentionForm &form);

// Whether a target makes a kernel of an attention with operands of these types.
bool generatesAttention(Target target, mlir::RankedTensorType query, mlir::RankedTensorType key, mlir::RankedTensorType value,
                        const AttentionForm &form);

} // namespace ashlar::exec

#endif // ASHLAR_DIALECTS_EXEC_TARGET_TRAITS_H
