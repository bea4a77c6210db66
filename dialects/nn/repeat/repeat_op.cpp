// SPDX-License-Identifier: Apache-2.0
//
// nn.repeat: constraints and text; labels of constraints as in repeat.td.

#include "dialects/nn/repeat.h"

#include "dialects/nn/repeat/repeats.h"
#include "dialects/support/tensor_values.h"

using namespace mlir;

namespace ashlar::nn {

//===-- Text --------------------------------------------------------------------------------------------------------------------------===//

namespace {

constexpr llvm::StringLiteral kGroups[] = {"carried", "sliced", "captured"};

// Operands of one kind, with the names of their arguments in the body.
struct Group {
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
};

ParseResult parseGroup(OpAsmParser &parser, StringRef keyword, Group &group) {
  if (parser.parseOptionalKeyword(keyword)) {
    return success();
  }
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, [&] {
    return failure(parser.parseArgument(group.arguments.emplace_back()) || parser.parseEqual() ||
                   parser.parseOperand(group.operands.emplace_back()));
  });
}

void printGroup(OpAsmPrinter &printer, StringRef keyword, ValueRange operands, ArrayRef<BlockArgument> arguments) {
  if (operands.empty()) {
    return;
  }
  printer << " " << keyword << "(";
  llvm::interleaveComma(llvm::zip_equal(arguments, operands), printer, [&](auto pair) {
    printer.printOperand(std::get<0>(pair));
    printer << " = ";
    printer.printOperand(std::get<1>(pair));
  });
  printer << ")";
}

} // namespace

ParseResult RepeatOp::parse(OpAsmParser &parser, OperationState &state) {
  Builder &builder = parser.getBuilder();
  int64_t count = 0;
  if (parser.parseInteger(count)) {
    return failure();
  }
  state.addAttribute(getCountAttrName(state.name), builder.getI64IntegerAttr(count));
  if (succeeded(parser.parseOptionalKeyword("reversed"))) {
    state.addAttribute(getReversedAttrName(state.name), builder.getUnitAttr());
  }
  SmallVector<OpAsmParser::UnresolvedOperand, 1> condition;
  if (succeeded(parser.parseOptionalKeyword("when")) && parser.parseOperand(condition.emplace_back())) {
    return failure();
  }
  Group groups[std::size(kGroups)];
  FunctionType type;
  const SMLoc at = parser.getCurrentLocation();
  for (auto [keyword, group] : llvm::zip_equal(kGroups, groups)) {
    if (parseGroup(parser, keyword, group)) {
      return failure();
    }
  }
  if (parser.parseOptionalAttrDict(state.attributes) || parser.parseColonType(type)) {
    return failure();
  }
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  SmallVector<int32_t> sizes;
  for (Group &group : groups) {
    llvm::append_range(arguments, group.arguments);
    llvm::append_range(operands, group.operands);
    sizes.push_back(static_cast<int32_t>(group.operands.size()));
  }
  llvm::append_range(operands, condition);
  if (operands.size() != type.getNumInputs()) {
    return parser.emitError(at) << "has " << operands.size() << " operands but " << type.getNumInputs() << " types";
  }
  const size_t slicedBegin = groups[0].operands.size(), slicedEnd = slicedBegin + groups[1].operands.size();
  for (auto [i, argument, operandType] : llvm::enumerate(arguments, type.getInputs().take_front(arguments.size()))) {
    argument.type = operandType;
    if (i >= slicedBegin && i < slicedEnd) {
      auto tensor = dyn_cast<RankedTensorType>(operandType);
      if (!tensor || tensor.getRank() == 0) {
        return parser.emitError(at) << "slices " << operandType << ", which has no dim 0"; // C3
      }
      argument.type = rowType(tensor);
    }
  }
  state.getOrAddProperties<Properties>().operandSegmentSizes = {sizes[0], sizes[1], sizes[2], static_cast<int32_t>(condition.size())};
  state.addTypes(type.getResults());
  return failure(parser.resolveOperands(operands, type.getInputs(), at, state.operands) ||
                 parser.parseRegion(*state.addRegion(), arguments));
}

void RepeatOp::print(OpAsmPrinter &printer) {
  printer << " " << static_cast<int64_t>(getCount()) << (getReversed() ? " reversed" : "");
  if (getCondition()) {
    printer << " when ";
    printer.printOperand(getCondition());
  }
  printGroup(printer, kGroups[0], getCarried(), getCarriedArguments());
  printGroup(printer, kGroups[1], getSliced(), getSlicedArguments());
  printGroup(printer, kGroups[2], getCaptured(), getCapturedArguments());
  printer.printOptionalAttrDict((*this)->getAttrs(), {getCountAttrName(), getReversedAttrName(), getOperandSegmentSizesAttrName()});
  printer << " : ";
  printer.printFunctionalType(getOperation());
  printer << " ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

//===-- Constraints -------------------------------------------------------------------------------------------------------------------===//

LogicalResult RepeatOp::verify() {
  const int64_t count = getCountAttr().getInt();
  if (count < 0) { // C1
    return emitOpError("runs ") << count << " times";
  }
  if (Value condition = getCondition()) { // C7
    if (typeOf(condition).getRank() != 0) {
      return emitOpError("has a condition of type ") << condition.getType() << ", not one bool";
    }
    if (count != 1 || !getSliced().empty() || getNumResults() != getCarried().size()) {
      return emitOpError("has a condition and ")
             << count << " iterations, " << getSliced().size() << " sliced operands and " << getNumResults() << " results for "
             << getCarried().size() << " carried values; with a condition it runs once and carries all results";
    }
  }
  const size_t arguments = getBody().getNumArguments(), operands = getNumOperands() - (getCondition() ? 1 : 0);
  if (arguments != operands) {
    return emitOpError("has ") << operands << " operands but a body of " << arguments << " arguments";
  }
  for (auto [i, operand, argument] : llvm::enumerate(getCarried(), getCarriedArguments())) {
    if (operand.getType() != argument.getType()) { // C2
      return emitOpError("carries ") << operand.getType() << " as value " << i << " but its body takes " << argument.getType();
    }
  }
  for (auto [i, operand, argument] : llvm::enumerate(getSliced(), getSlicedArguments())) {
    RankedTensorType type = typeOf(operand);
    if (type.getRank() == 0 || type.getDimSize(0) != count) { // C3
      return emitOpError("slices ") << type << " as tensor " << i << ", which has not " << count << " rows";
    }
    if (argument.getType() != rowType(type)) { // C3
      return emitOpError("slices ") << type << " as tensor " << i << " but its body takes " << argument.getType();
    }
  }
  for (auto [i, operand, argument] : llvm::enumerate(getCaptured(), getCapturedArguments())) {
    if (operand.getType() != argument.getType()) { // C4
      return emitOpError("captures ") << operand.getType() << " as value " << i << " but its body takes " << argument.getType();
    }
  }
  return success();
}

LogicalResult RepeatOp::verifyRegions() {
  auto yield = cast<YieldOp>(getBody().front().getTerminator());
  if (yield.getNumOperands() != getNumResults() || getNumResults() < getCarried().size()) {
    return emitOpError("carries ") << getCarried().size() << " values and has " << getNumResults() << " results but its body yields "
                                   << yield.getNumOperands();
  }
  for (auto [i, operand, next, result] : llvm::enumerate(getCarried(), getYielded().take_front(getCarried().size()), getCarriedResults())) {
    if (next.getType() != operand.getType()) { // C2
      return emitOpError("carries ") << operand.getType() << " as value " << i << " but its body yields " << next.getType()
                                     << "; a carried value keeps its type";
    }
    if (result.getType() != operand.getType()) { // C2
      return emitOpError("carries ") << operand.getType() << " as value " << i << " but returns " << result.getType();
    }
  }
  for (auto [i, row, result] : llvm::enumerate(getYieldedStacked(), getStackedResults())) {
    RankedTensorType stacked = stackType(typeOf(row), getCount());
    if (result.getType() != stacked) { // C5
      return emitOpError("stacks ") << row.getType() << " to " << stacked << " as result " << getCarried().size() + i << " but returns "
                                    << result.getType();
    }
  }
  for (Operation &op : getBody().front()) {
    if (!isMemoryEffectFree(&op)) { // C6
      return op.emitOpError("has an effect, which the body of an nn.repeat may not have");
    }
  }
  return success();
}

} // namespace ashlar::nn
