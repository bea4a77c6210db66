// SPDX-License-Identifier: Apache-2.0
//
// The rows.

#include "dialects/exec/target_traits.h"

#include <cstdint>

using namespace mlir;

namespace ashlar::exec {

namespace {

constexpr Epilogue kOwnActivations[] = {Epilogue::Relu, Epilogue::Sigmoid, Epilogue::Tanh, Epilogue::GeluTanh, Epilogue::GeluErf};
constexpr Epilogue kCublasLtActivations[] = {Epilogue::Relu, Epilogue::GeluTanh};

const TargetTraits kCpu = {
    /*takesNarrow=*/true,
    /*takesBytes=*/true,
    /*hasTf32=*/false,
    /*sumsOperandRows=*/false,
    /*joinsReshaped=*/false,
    kOwnActivations,
    /*slopes=*/{},
    /*attention=*/
    {/*takesF32=*/true, /*takesBf16=*/true, /*takesF16=*/false, /*masks=*/AttentionMasks::All, /*caps=*/true, /*drops=*/true,
     /*shiftsDiagonal=*/true,
     /*leastKeys=*/1,
     /*widthMultiple=*/1, /*mostWidth=*/INT64_MAX, /*expandsWell=*/true},
    /*attentionColumns=*/0,
    /*convolvesNarrow=*/true,
    /*givesConvolvedSums=*/true,
    /*weightsLast=*/false,
    /*padsEvenly=*/false,
    /*joinsConvolutions=*/true,
    /*ordersWeights=*/true,
    /*scattersInRegisters=*/false,
    /*cutsLoops=*/true,
    /*sharesRows=*/false,
    /*hasBlocks=*/false,
    /*mostCodeAgain=*/16,
    /*launchBytes=*/0,
    /*takesConditions=*/true,
    /*insertsRows=*/true,
    /*combinesShort=*/true,
    /*meetsInSharedMemory=*/true,
    /*handOverPs=*/20'000'000,
    /*rowAlignment=*/1,
    /*hasDeviceMemory=*/false,
    /*fixedWorkspace=*/false,
    /*playsDevices=*/true,
    /*hasPresets=*/false,
};

const TargetTraits kCuda = {
    /*takesNarrow=*/true,
    /*takesBytes=*/false,
    /*hasTf32=*/true,
    /*sumsOperandRows=*/true,
    /*joinsReshaped=*/true,
    kCublasLtActivations,
    /*slopes=*/kCublasLtActivations,
    /*attention=*/ // the common part of what cuDNN takes on all chips from sm_80 on
    {/*takesF32=*/false, /*takesBf16=*/true, /*takesF16=*/true, /*masks=*/AttentionMasks::LikeOperands, /*caps=*/false,
     /*drops=*/false, /*shiftsDiagonal=*/false,
     /*leastKeys=*/2,
     /*widthMultiple=*/8, /*mostWidth=*/128, /*expandsWell=*/false},
    /*attentionColumns=*/256,
    /*convolvesNarrow=*/true,
    /*givesConvolvedSums=*/false,
    /*weightsLast=*/true,
    /*padsEvenly=*/true,
    /*joinsConvolutions=*/false,
    /*ordersWeights=*/false,
    /*scattersInRegisters=*/true,
    /*cutsLoops=*/false,
    /*sharesRows=*/true,
    /*hasBlocks=*/true,
    /*mostCodeAgain=*/128,
    /*launchBytes=*/20 * 1000 * 1000,
    /*takesConditions=*/false,
    /*insertsRows=*/false,
    /*combinesShort=*/false,
    /*meetsInSharedMemory=*/false,
    /*handOverPs=*/0,
    /*rowAlignment=*/64, // ASHLAR_RT_ALIGNMENT: adjacent elements are one access
    /*hasDeviceMemory=*/true,
    /*fixedWorkspace=*/true,
    /*playsDevices=*/false,
    /*hasPresets=*/true,
};

} // namespace

const TargetTraits &traitsOf(Target target) {
  switch (target) {
  case Target::Cpu:
    return kCpu;
  case Target::Cuda:
    return kCuda;
  }
  llvm_unreachable("unknown target");
}

namespace {

bool takesMask(const AttentionTraits &traits, RankedTensorType mask, Type operands, int64_t keys) {
  constexpr int64_t kKeysMultiple = 8;
  Type element = mask.getElementType();
  switch (traits.masks) {
  case AttentionMasks::All:
    return element.isF32() || element.isBF16() || element.isInteger(1);
  case AttentionMasks::LikeOperands:
    return element == operands && mask.getShape().back() == keys && keys % kKeysMultiple == 0;
  }
  llvm_unreachable("unknown masks");
}

} // namespace

bool takesAttention(Target target, RankedTensorType query, RankedTensorType key, RankedTensorType value, const AttentionForm &form) {
  const AttentionTraits &traits = traitsOf(target).attention;
  Type element = query.getElementType();
  const bool takesType =
      (element.isF32() && traits.takesF32) || (element.isBF16() && traits.takesBf16) || (element.isF16() && traits.takesF16);
  const bool isEmpty = query.getNumElements() == 0 || key.getNumElements() == 0 || value.getNumElements() == 0;
  if (!takesType || isEmpty || key.getElementType() != element || value.getElementType() != element) {
    return false;
  }
  const int64_t rows = query.getShape().end()[-2], keys = key.getShape().end()[-2];
  const bool takesCausal = !form.diagonal || traits.shiftsDiagonal || (*form.diagonal == 0 && rows == keys && !form.shifts);
  const bool takesScores = traits.caps || (form.window == 0 && form.softcap == 0);
  const bool takesWidths = llvm::all_of(ArrayRef{query.getShape().back(), value.getShape().back()},
                                        [&](int64_t width) { return width % traits.widthMultiple == 0 && width <= traits.mostWidth; });
  return takesCausal && takesScores && takesWidths && (traits.drops || !form.drops) && keys >= traits.leastKeys &&
         (!form.mask || takesMask(traits, form.mask, element, keys));
}

bool generatesAttention(Target target, RankedTensorType query, RankedTensorType key, RankedTensorType value, const AttentionForm &form) {
  Type element = query.getElementType();
  const bool isEmpty = query.getNumElements() == 0 || key.getNumElements() == 0 || value.getNumElements() == 0;
  return !isEmpty && (element.isF32() || element.isBF16() || element.isF16()) && key.getElementType() == element &&
         value.getElementType() == element && !(form.mask && form.mask.getElementType().isF64()) &&
         std::max(query.getShape().back(), value.getShape().back()) <= traitsOf(target).attentionColumns;
}

} // namespace ashlar::exec
