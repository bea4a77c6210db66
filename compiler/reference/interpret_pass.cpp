// SPDX-License-Identifier: Apache-2.0
//
// -ashlar-interpret: runs functions and prints their results; see passes.td.

#include "compiler/reference/equivalence.h"
#include "compiler/reference/passes.h"

#include "mlir/AsmParser/AsmParser.h"

using namespace mlir;

namespace ashlar::reference {

#define GEN_PASS_DEF_INTERPRETPASS
#include "compiler/reference/passes.h.inc"

namespace {

// Returns the tensors of an array attribute written as text; failure, with an error, when it is none.
FailureOr<SmallVector<Tensor>> parseInputs(ModuleOp module, StringRef text) {
  auto array = dyn_cast_or_null<ArrayAttr>(parseAttribute(text, module.getContext()));
  if (!array) {
    return module.emitError("inputs \"") << text << "\" is not an array attribute, as in [dense<1.0> : tensor<2xf32>]";
  }
  SmallVector<Tensor> inputs;
  for (Attribute element : array) {
    auto elements = dyn_cast<ElementsAttr>(element);
    FailureOr<Tensor> tensor = elements ? Tensor::fromAttribute(elements) : FailureOr<Tensor>();
    if (failed(tensor)) {
      return module.emitError("input ") << element << " is not a dense tensor";
    }
    inputs.push_back(std::move(*tensor));
  }
  return inputs;
}

struct InterpretPass : public impl::InterpretPassBase<InterpretPass> {
  using InterpretPassBase::InterpretPassBase;

  // Returns the inputs of one run: those given, the first time inputs are needed; else random ones.
  FailureOr<SmallVector<Tensor>> inputsOf(func::FuncOp function, std::mt19937_64 &generator) {
    if (function.getNumArguments() > 0 && !inputs.empty()) {
      FailureOr<SmallVector<Tensor>> given = parseInputs(getOperation(), inputs);
      inputs.clear();
      return given;
    }
    SmallVector<Tensor> random;
    for (RankedTensorType type : globalArgumentTypes(function)) {
      random.push_back(randomTensor(type, generator, intLimit));
    }
    return random;
  }

  LogicalResult runFunction(Interpreter &interpreter, StringRef name, std::mt19937_64 &generator) {
    auto function = getOperation().lookupSymbol<func::FuncOp>(name);
    if (!function) {
      return getOperation().emitError("no function @") << name << " to interpret";
    }
    FailureOr<SmallVector<Tensor>> arguments = inputsOf(function, generator);
    if (failed(arguments)) {
      return failure();
    }
    FailureOr<std::vector<Tensor>> results = runGlobal(interpreter, name, *arguments);
    if (failed(results)) {
      return failure();
    }
    for (auto [i, result] : llvm::enumerate(*results)) {
      llvm::outs() << '@' << name << " result " << i << ": ";
      result.print(llvm::outs());
      llvm::outs() << '\n';
    }
    return success();
  }

  void runOnOperation() override {
    if (ranks < 1 || intLimit < 1 || functions.empty()) {
      getOperation().emitError("interpreting takes at least one function, one rank and an int-limit of 1; got ")
          << functions.size() << " functions, ranks " << ranks.getValue() << ", int-limit " << intLimit.getValue();
      return signalPassFailure();
    }
    Interpreter interpreter(getOperation(), ranks);
    interpreter.setSeed(seed);
    std::mt19937_64 generator(seed);
    for (const std::string &name : functions) {
      if (failed(runFunction(interpreter, name, generator))) {
        return signalPassFailure();
      }
    }
    markAllAnalysesPreserved();
  }
};

} // namespace

} // namespace ashlar::reference
