// SPDX-License-Identifier: Apache-2.0
//
// Enums of the dialects in numbers of the ABI. No switch has a default, so that a new case does not compile until it has a number here.

#include "compiler/target/abi_numbers.h"

#include "runtime/abi/ashlar_rt.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/TypeSwitch.h"

namespace ashlar::target {

uint32_t dtypeOf(mlir::Type type) {
  return llvm::TypeSwitch<mlir::Type, uint32_t>(type)
      .Case([](mlir::Float32Type) { return ASHLAR_RT_F32; })
      .Case([](mlir::Float64Type) { return ASHLAR_RT_F64; })
      .Case([](mlir::Float16Type) { return ASHLAR_RT_F16; })
      .Case([](mlir::BFloat16Type) { return ASHLAR_RT_BF16; })
      .Case([](mlir::IntegerType integer) -> uint32_t {
        const bool hasNoSign = integer.isUnsigned();
        switch (integer.getWidth()) {
        case 1:
          return ASHLAR_RT_BOOL;
        case 8:
          return hasNoSign ? ASHLAR_RT_U8 : ASHLAR_RT_I8;
        case 16:
          return hasNoSign ? ASHLAR_RT_U16 : ASHLAR_RT_I16;
        case 32:
          return hasNoSign ? ASHLAR_RT_U32 : ASHLAR_RT_I32;
        default:
          return hasNoSign ? ASHLAR_RT_U64 : ASHLAR_RT_I64;
        }
      });
}

uint32_t kindOf(CollectiveKind kind) {
  switch (kind) {
  case CollectiveKind::Slice:
    return ASHLAR_RT_SLICE;
  case CollectiveKind::AllReduce:
    return ASHLAR_RT_ALL_REDUCE;
  case CollectiveKind::ReduceScatter:
    return ASHLAR_RT_REDUCE_SCATTER;
  case CollectiveKind::AllToAll:
    return ASHLAR_RT_ALL_TO_ALL;
  case CollectiveKind::AllGather:
    return ASHLAR_RT_ALL_GATHER;
  case CollectiveKind::Permute:
    return ASHLAR_RT_PERMUTE;
  case CollectiveKind::Broadcast:
    return ASHLAR_RT_BROADCAST;
  case CollectiveKind::Halo:
    return ASHLAR_RT_HALO;
  }
  llvm_unreachable("unknown collective");
}

uint32_t reductionOf(Reduction reduction) {
  switch (reduction) {
  case Reduction::Sum:
    return ASHLAR_RT_SUM;
  case Reduction::Max:
    return ASHLAR_RT_MAX;
  case Reduction::Min:
    return ASHLAR_RT_MIN;
  }
  llvm_unreachable("unknown reduction");
}

uint32_t roleOf(exec::Role role) {
  switch (role) {
  case exec::Role::Variable:
    return ASHLAR_RT_VARIABLE;
  case exec::Role::State:
    return ASHLAR_RT_STATE;
  case exec::Role::Input:
    return ASHLAR_RT_INPUT;
  case exec::Role::Output:
    return ASHLAR_RT_OUTPUT;
  case exec::Role::Passed:
    return ASHLAR_RT_PASSED;
  }
  llvm_unreachable("unknown role");
}

uint32_t roleOf(nn::ProgramRole role) {
  switch (role) {
  case nn::ProgramRole::Init:
    return ASHLAR_RT_INIT;
  case nn::ProgramRole::Run:
    return ASHLAR_RT_RUN;
  case nn::ProgramRole::LargerRun:
    return ASHLAR_RT_LARGER_RUN;
  case nn::ProgramRole::Prepare:
    return ASHLAR_RT_PREPARE;
  case nn::ProgramRole::TrainStep:
    return ASHLAR_RT_TRAIN_STEP;
  case nn::ProgramRole::Forward:
    return ASHLAR_RT_FORWARD;
  case nn::ProgramRole::Backward:
    return ASHLAR_RT_BACKWARD;
  case nn::ProgramRole::Weights:
    return ASHLAR_RT_WEIGHTS;
  case nn::ProgramRole::Update:
    return ASHLAR_RT_UPDATE;
  case nn::ProgramRole::EvalStep:
    return ASHLAR_RT_EVAL_STEP;
  case nn::ProgramRole::Prefill:
    return ASHLAR_RT_PREFILL;
  case nn::ProgramRole::Decode:
    return ASHLAR_RT_DECODE;
  }
  llvm_unreachable("unknown role");
}

uint32_t spaceOf(exec::Space space) {
  switch (space) {
  case exec::Space::Arena:
    return ASHLAR_RT_ARENA;
  case exec::Space::Constant:
    return ASHLAR_RT_CONSTANT;
  case exec::Space::Slot:
    return ASHLAR_RT_SLOT;
  }
  llvm_unreachable("unknown space");
}

} // namespace ashlar::target
