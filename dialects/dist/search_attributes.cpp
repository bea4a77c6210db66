// SPDX-License-Identifier: Apache-2.0
//
// Verifiers of the attributes that a search leaves.

#include "dialects/dist/dist.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace ashlar::dist {

LogicalResult DifferenceAttr::verify(function_ref<InFlightDiagnostic()> emitError, EndKind kind, StringAttr name, LayoutAttr, LayoutAttr) {
  if (kind != EndKind::Parameter && kind != EndKind::Op) { // C1
    return emitError() << "difference of " << name << " is of kind " << stringifyEndKind(kind) << ", not parameter or op";
  }
  return success();
}

LogicalResult SearchAttr::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<StrategyAttr> strategies, StrategyKind taken,
                                 int64_t, int64_t, int64_t, FloatAttr, ArrayRef<RunnerUpAttr>, RuleListAttr) {
  auto count = [&](StrategyKind kind) { return llvm::count_if(strategies, [&](StrategyAttr each) { return each.getKind() == kind; }); };
  if (count(taken) == 0) { // C1
    return emitError() << "search took " << stringifyStrategyKind(taken) << ", which is not among its " << strategies.size()
                       << " strategies";
  }
  for (StrategyAttr strategy : strategies) {
    if (count(strategy.getKind()) > 1) { // C2
      return emitError() << "search has the strategy " << stringifyStrategyKind(strategy.getKind()) << " twice";
    }
  }
  return success();
}

StrategyAttr SearchAttr::getTakenStrategy() const {
  return *llvm::find_if(getStrategies(), [&](StrategyAttr each) { return each.getKind() == getTaken(); });
}

} // namespace ashlar::dist
