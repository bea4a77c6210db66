// SPDX-License-Identifier: Apache-2.0
//
// -ashlar-decode; see passes.td.

#include "passes/decode/passes.h"

#include "dialects/nn/paths.h"
#include "dialects/nn/programs.h"
#include "dialects/support/tensor_values.h"
#include "passes/decode/position_program.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace ashlar::decode {

#define GEN_PASS_DEF_DECODEPASS
#include "passes/decode/passes.h.inc"

namespace {

// Lists names for an error: "input_ids", "mask".
std::string listOf(ArrayRef<StringRef> names) {
  return names.empty() ? "none" : llvm::join(llvm::map_range(names, [](StringRef name) { return ("\"" + name + "\"").str(); }), ", ");
}

StringRef nameOf(func::FuncOp model, unsigned argument) {
  auto name = model.getArgAttrOfType<StringAttr>(argument, nn::kNameAttr);
  return name ? name.getValue() : StringRef();
}

struct DecodePass : public impl::DecodePassBase<DecodePass> {
  using DecodePassBase::DecodePassBase;

  void runOnOperation() override {
    func::FuncOp model = nn::findProgram(getOperation(), nn::ProgramRole::Run);
    if (!model) {
      getOperation().emitError("no program of role run to generate text with");
      return signalPassFailure();
    }
    FailureOr<BlockArgument> tokensInput = findTokens(model);
    if (failed(tokensInput)) {
      return signalPassFailure();
    }
    PositionPlaces places(model, *tokensInput);
    FailureOr<OpOperand *> result = findLogits(model, places);
    if (failed(result)) {
      return signalPassFailure();
    }
    addPrograms(model, places, nameOf(model, tokensInput->getArgNumber()), *result);
    model.erase();
  }

private:
  void addPrograms(func::FuncOp model, const PositionPlaces &places, StringRef input, OpOperand *result) {
    Caches caches;
    const int64_t several = std::min(std::max<int64_t>(chunk, 1), places.context());
    func::FuncOp decode = addPositionProgram(model, places, result, {nn::ProgramRole::Decode, /*positions=*/1, input.str()}, caches);
    addPositionProgram(model, places, {}, {nn::ProgramRole::Prefill, several, (input + ".prefill").str()}, caches);
    decode->setAttr(kContextAttr, Builder(model.getContext()).getI64IntegerAttr(places.context()));
  }

  // Returns the argument of the tokens, the only one of the model.
  static FailureOr<BlockArgument> findTokens(func::FuncOp model) {
    SmallVector<StringRef> names;
    for (unsigned i = 0; i < model.getNumArguments(); ++i) {
      names.push_back(nameOf(model, i));
    }
    if (names.size() != 1) {
      return model.emitError() << "generation gives the model nothing but its tokens, and its inputs are " << listOf(names)
                               << "; give the others values in the job, as inputs { name: \"attention_mask\" value: 1 }";
    }
    BlockArgument tokens = model.getArgument(0);
    const RankedTensorType type = typeOf(tokens);
    if (type.getRank() != 2 || !(type.getElementType().isInteger(64) || type.getElementType().isInteger(32)) || type.getDimSize(1) < 2) {
      return model.emitError() << "the input \"" << names.front() << "\" is of type " << type
                               << "; generation needs one of tokens, i64 or i32 (batch, positions), with at least two positions";
    }
    return tokens;
  }

  // Returns the operand of the return that holds the logits of each position.
  FailureOr<OpOperand *> findLogits(func::FuncOp model, const PositionPlaces &places) {
    SmallVector<OpOperand *> found;
    SmallVector<StringRef> names;
    for (OpOperand &result : model.front().getTerminator()->getOpOperands()) {
      auto name = model.getResultAttrOfType<StringAttr>(result.getOperandNumber(), nn::kNameAttr);
      names.push_back(name ? name.getValue() : StringRef());
      const bool isOfLogits = typeOf(result.get()).getRank() == 3 && isa<FloatType>(typeOf(result.get()).getElementType());
      if (logits.empty() ? isOfLogits : names.back() == logits) {
        found.push_back(&result);
      }
    }
    if (found.size() != 1) {
      return model.emitError() << (logits.empty() ? "generation needs one output of logits, floats (batch, positions, vocabulary)"
                                                  : "generate.logits \"" + logits + "\" is no output")
                               << "; the outputs of the model are " << listOf(names)
                               << (logits.empty() ? "; name it by generate { logits: }" : "");
    }
    Value value = found.front()->get();
    if (Operation *mixing = places.findMixing(value)) {
      return mixing->emitOpError(
          "computes from several positions of the tokens, and only causal attentions are known to leave the later ones "
          "out; generation needs a decoder (docs/generate.md)");
    }
    std::optional<Place> place = places.find(value);
    if (!place || typeOf(value).getRank() != 3 || !(*place == Place{1, 1})) {
      return model.emitError() << "the output of logits is of type " << value.getType()
                               << (places.depends(value) ? ", without the positions in dim 1" : ", and does not depend on the tokens")
                               << "; it is (batch, positions, vocabulary)";
    }
    return found.front();
  }
};

} // namespace

} // namespace ashlar::decode
