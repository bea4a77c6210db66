// SPDX-License-Identifier: Apache-2.0
//
// The rows.

#include "dialects/exec/target_traits.h"

namespace ashlar::exec {

namespace {

constexpr Epilogue kOwnActivations[] = {Epilogue::Relu, Epilogue::Sigmoid, Epilogue::Tanh, Epilogue::GeluTanh, Epilogue::GeluErf};
constexpr Epilogue kCublasLtActivations[] = {Epilogue::Relu, Epilogue::GeluTanh};

const TargetTraits kCpu = {
    /*takesNarrow=*/false,
    /*takesBytes=*/true,
    /*hasTf32=*/false,
    /*sumsOperandRows=*/false,
    /*joinsReshaped=*/false,
    kOwnActivations,
    /*convolvesNarrow=*/false,
    /*weightsLast=*/false,
    /*padsEvenly=*/false,
    /*joinsConvolutions=*/true,
    /*ordersWeights=*/true,
    /*scattersInRegisters=*/false,
    /*cutsLoops=*/true,
    /*sharesRows=*/false,
    /*mostCodeAgain=*/16,
    /*launchBytes=*/0,
    /*combinesShort=*/true,
    /*playsDevices=*/true,
};

const TargetTraits kCuda = {
    /*takesNarrow=*/true,
    /*takesBytes=*/false,
    /*hasTf32=*/true,
    /*sumsOperandRows=*/true,
    /*joinsReshaped=*/true,
    kCublasLtActivations,
    /*convolvesNarrow=*/true,
    /*weightsLast=*/true,
    /*padsEvenly=*/true,
    /*joinsConvolutions=*/false,
    /*ordersWeights=*/false,
    /*scattersInRegisters=*/true,
    /*cutsLoops=*/false,
    /*sharesRows=*/true,
    /*mostCodeAgain=*/128,
    /*launchBytes=*/20 * 1000 * 1000,
    /*combinesShort=*/false,
    /*playsDevices=*/false,
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
