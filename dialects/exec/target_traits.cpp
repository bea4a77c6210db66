// SPDX-License-Identifier: Apache-2.0
//
// The rows.

#include "dialects/exec/target_traits.h"

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
    /*accumulates=*/true,
    kOwnActivations,
    /*fusesAttention=*/true,
    /*convolvesNarrow=*/false,
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
    /*combinesShort=*/true,
    /*meetsInSharedMemory=*/true,
    /*handOverPs=*/20'000'000,
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
    /*accumulates=*/false,
    kCublasLtActivations,
    /*fusesAttention=*/false,
    /*convolvesNarrow=*/true,
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
    /*combinesShort=*/false,
    /*meetsInSharedMemory=*/false,
    /*handOverPs=*/0,
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

} // namespace ashlar::exec
