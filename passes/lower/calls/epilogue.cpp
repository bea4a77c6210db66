// SPDX-License-Identifier: Apache-2.0
//
// The names of activations.

#include "passes/lower/calls/epilogue.h"

#include "dialects/nn/nn.h"
#include "runtime/abi/ashlar_rt.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ashlar::lower {

exec::Epilogue epilogueOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, exec::Epilogue>(op)
      .Case([](nn::ReluOp) { return exec::Epilogue::Relu; })
      .Case([](nn::SigmoidOp) { return exec::Epilogue::Sigmoid; })
      .Case([](nn::TanhOp) { return exec::Epilogue::Tanh; })
      .Case([](nn::GeluOp gelu) { return gelu.getTanhApproximation() ? exec::Epilogue::GeluTanh : exec::Epilogue::GeluErf; })
      .Default([](Operation *) { return exec::Epilogue::None; });
}

// Without a default: a new case does not compile until it has a number here.
uint32_t numberOfWeights(bool areFixed, bool areKept) {
  return areFixed ? ASHLAR_RT_WEIGHTS_FIXED : areKept ? ASHLAR_RT_WEIGHTS_KEPT : ASHLAR_RT_WEIGHTS_ANY;
}

uint32_t numberOf(exec::Epilogue epilogue) {
  switch (epilogue) {
  case exec::Epilogue::None:
    return ASHLAR_RT_EPILOGUE_NONE;
  case exec::Epilogue::Relu:
    return ASHLAR_RT_EPILOGUE_RELU;
  case exec::Epilogue::GeluErf:
    return ASHLAR_RT_EPILOGUE_GELU_ERF;
  case exec::Epilogue::GeluTanh:
    return ASHLAR_RT_EPILOGUE_GELU_TANH;
  case exec::Epilogue::Sigmoid:
    return ASHLAR_RT_EPILOGUE_SIGMOID;
  case exec::Epilogue::Tanh:
    return ASHLAR_RT_EPILOGUE_TANH;
  }
  llvm_unreachable("unknown epilogue");
}

} // namespace ashlar::lower
