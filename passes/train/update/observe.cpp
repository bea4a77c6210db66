// SPDX-License-Identifier: Apache-2.0
//
// See observe.h.

#include "passes/train/update/observe.h"

#include "dialects/nn/scratch_state.h"
#include "dialects/support/tensor_values.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;

namespace ashlar::train {

void observe(func::FuncOp function, StringRef name, Value scalar) {
  RankedTensorType type = typeOf(scalar);
  auto atModule = ImplicitLocOpBuilder::atBlockBegin(scalar.getLoc(), function->getParentOfType<ModuleOp>().getBody());
  auto variable = nn::VariableOp::create(atModule, name, type, nn::splat(type, 0), /*trainable=*/false,
                                         /*state_of=*/FlatSymbolRefAttr(), /*internal=*/true);
  variable->setAttr(nn::kScratchAttr, atModule.getUnitAttr());
  ImplicitLocOpBuilder atEnd(scalar.getLoc(), function.front().getTerminator());
  nn::WriteOp::create(atEnd, name, scalar);
}

} // namespace ashlar::train
