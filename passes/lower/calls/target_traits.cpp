// SPDX-License-Identifier: Apache-2.0
//
// One row a target.

#include "passes/lower/calls/target_traits.h"

namespace ashlar::lower {

using exec::Epilogue;

const TargetTraits &traitsOf(exec::Target target) {
  static constexpr Epilogue kOwn[] = {Epilogue::Relu, Epilogue::Sigmoid, Epilogue::Tanh, Epilogue::GeluTanh, Epilogue::GeluErf};
  static constexpr Epilogue kCublasLt[] = {Epilogue::Relu, Epilogue::GeluTanh};
  static const TargetTraits cpu = {/*takesNarrow=*/false, /*sumsOperandRows=*/false, kOwn, /*scattersInRegisters=*/false,
                                   /*splitsReductions=*/false};
  static const TargetTraits cuda = {/*takesNarrow=*/true, /*sumsOperandRows=*/true, kCublasLt, /*scattersInRegisters=*/true,
                                    /*splitsReductions=*/true};
  switch (target) {
  case exec::Target::Cpu:
    return cpu;
  case exec::Target::Cuda:
    return cuda;
  }
  llvm_unreachable("unknown target");
}

} // namespace ashlar::lower
