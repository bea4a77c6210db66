// SPDX-License-Identifier: Apache-2.0
//
// Two walks over a local program: the first finds how dims are split, the second over which axes values are partial.

#include "passes/layout/local_layouts.h"

#include "dialects/nn/nn.h"
#include "passes/layout/partial_values.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ashlar::layout {

unsigned DimClasses::add() {
  parents.push_back(parents.size());
  splits.emplace_back();
  return parents.back();
}

unsigned DimClasses::add(AxisList axes) {
  unsigned dim = add();
  splits[dim] = std::move(axes);
  return dim;
}

unsigned DimClasses::root(unsigned dim) {
  while (parents[dim] != dim) {
    dim = parents[dim] = parents[parents[dim]];
  }
  return dim;
}

LogicalResult DimClasses::merge(unsigned a, unsigned b) {
  a = root(a), b = root(b);
  if (splits[a] && splits[b] && *splits[a] != *splits[b]) {
    return failure();
  }
  if (a != b) {
    parents[b] = a;
    splits[a] = splits[a] ? splits[a] : splits[b];
  }
  return success();
}

const AxisList *DimClasses::find(unsigned dim) {
  const std::optional<AxisList> &split = splits[root(dim)];
  return split ? &*split : nullptr;
}

namespace {

// Returns true for a dim whose rows the op takes by number: partitioning would shift the numbers, which a local program does not.
bool holdsNumberedRows(Operation *op, Value value, size_t dim) {
  auto indexing = dyn_cast<IndexingOpInterface>(op);
  return dim == 0 && indexing && value == indexing.getIndexed();
}

bool endsWith(ArrayRef<StringAttr> list, ArrayRef<StringAttr> end) {
  return list.size() >= end.size() && list.take_back(end.size()) == end;
}

} // namespace

LogicalResult LocalLayouts::run() {
  for (BlockArgument argument : function.getArguments()) {
    dims[argument] = addDims(layouts[argument] = dist::findLayout(argument).getLayout());
  }
  for (Operation &op : function.front().without_terminator()) {
    if (failed(splitOp(&op))) {
      return failure();
    }
  }
  for (Operation &op : function.front().without_terminator()) {
    if (failed(layOut(&op))) {
      return failure();
    }
  }
  return success();
}

LocalLayouts::Dims LocalLayouts::addDims(const Layout &layout) {
  return Dims(llvm::map_range(layout.dims, [&](const AxisList &axes) { return classes.add(axes); }));
}

// Returns what is known of the layout of a value: of dims, and of parts once the second walk has been there.
Layout LocalLayouts::knownLayout(Value value) {
  auto found = layouts.find(value);
  Layout layout = found == layouts.end() ? Layout::replicated(dims[value].size()) : found->second;
  for (auto [d, dim] : llvm::enumerate(dims[value])) {
    const AxisList *axes = classes.find(dim);
    layout.dims[d] = axes ? *axes : AxisList();
  }
  return layout;
}

// "operand 0 has layout [{"dp"}, {"tp"}], operand 1 [{}, {}]"
std::string LocalLayouts::describeOperands(Operation *op) {
  std::string text;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    text += (i == 0 ? "operand 0 has layout " : ", operand " + std::to_string(i) + " ") + knownLayout(operand).toString();
  }
  return text;
}

//===-- First walk: splits ------------------------------------------------------------------------------------------------------------===//

// A dim is split over axes by its major factor: a minor one would have to be split where the major one is not. Factors are joined with
// those of the tensors before; nothing is said of factors that only the result has (a broadcast).
LogicalResult LocalLayouts::joinFactors(Operation *op, Value value, const TensorFactors &tensor, const ShardingRule &rule,
                                        SmallVectorImpl<std::optional<unsigned>> &factors) {
  for (auto [d, dim] : llvm::enumerate(tensor)) {
    unsigned node = dims[value][d];
    bool isWhole = dim.empty() || !mayBeSplit(rule.factors[dim.front()].kind) || holdsNumberedRows(op, value, d);
    if (isWhole && failed(classes.merge(node, classes.add(AxisList())))) {
      return op->emitOpError() << "needs dim " << d << " of an operand whole but it has layout " << knownLayout(value).toString()
                               << "; put an AllGather over " << printAxes(*classes.find(node)) << " along dim " << d << " before it";
    }
    for (auto [position, factor] : llvm::enumerate(dim)) {
      unsigned own = position == 0 ? node : classes.add(AxisList());
      if (!factors[factor]) {
        factors[factor] = own;
      } else if (failed(classes.merge(*factors[factor], own))) {
        return op->emitOpError() << "cannot compute on its pieces: " << describeOperands(op) << ", but its dims are " << rule.toString()
                                 << "; put a collective before it that makes them agree";
      }
    }
  }
  return success();
}

LogicalResult LocalLayouts::splitRuled(Operation *op, const ShardingRule &rule) {
  SmallVector<std::optional<unsigned>> factors(rule.factors.size());
  for (Value result : op->getResults()) {
    Dims &own = dims[result];
    for (int64_t d = 0; d < cast<RankedTensorType>(result.getType()).getRank(); ++d) {
      own.push_back(classes.add());
    }
  }
  std::vector<TensorFactors> tensors(rule.operands.begin(), rule.operands.end());
  tensors.insert(tensors.end(), rule.results.begin(), rule.results.end());
  SmallVector<Value> values(op->getOperands());
  llvm::append_range(values, op->getResults());
  for (auto [tensor, value] : llvm::zip_equal(tensors, values)) {
    if (failed(joinFactors(op, value, tensor, rule, factors))) {
      return failure();
    }
  }
  return success();
}

// Takes the axes of a collective off the end of a dim.
LogicalResult LocalLayouts::gatherDim(Operation *op, Dims &result, int64_t dim, ArrayAttr attribute) {
  AxisList axes = dist::toAxisList(attribute);
  const AxisList *split = classes.find(result[dim]);
  AxisList before = split ? *split : AxisList();
  if (!endsWith(before, axes)) {
    return op->emitOpError() << "joins the pieces of dim " << dim << " over " << printAxes(axes) << " but its operand has layout "
                             << knownLayout(op->getOperand(0)).toString() << "; name the axes that split the dim, minor ones first to go";
  }
  before.pop_back_n(axes.size());
  result[dim] = classes.add(before);
  return success();
}

void LocalLayouts::appendAxes(Dims &result, int64_t dim, ArrayAttr attribute) {
  const AxisList *split = classes.find(result[dim]);
  AxisList axes = split ? *split : AxisList();
  llvm::append_range(axes, dist::toAxisList(attribute));
  result[dim] = classes.add(axes);
}

LogicalResult LocalLayouts::splitOp(Operation *op) {
  if (auto read = dyn_cast<nn::ReadOp>(op)) {
    dims[read] = addDims(layouts[read] = variables.find(read.getVariableAttr().getAttr())->second);
    return success();
  }
  if (auto ruled = dyn_cast<ShardingRuleOpInterface>(op)) {
    return splitRuled(op, ruled.getShardingRule());
  }
  if (!isa<dist::CollectiveOpInterface>(op)) {
    return op->emitOpError("has no sharding rule, so its layout is not known");
  }
  Dims result = dims[op->getOperand(0)];
  LogicalResult split = llvm::TypeSwitch<Operation *, LogicalResult>(op)
                            .Case([&](dist::AllReduceOp) { return success(); })
                            .Case([&](dist::AllGatherOp gather) { return gatherDim(op, result, gather.getDim(), gather.getAxes()); })
                            .Case([&](dist::ReduceScatterOp scatter) {
                              appendAxes(result, scatter.getDim(), scatter.getAxes());
                              return success();
                            })
                            .Case([&](dist::AllToAllOp exchange) {
                              appendAxes(result, exchange.getSplitDim(), exchange.getAxes());
                              return gatherDim(op, result, exchange.getConcatDim(), exchange.getAxes());
                            })
                            .Default([](Operation *other) { return other->emitOpError("is no collective that a model may hold"); });
  dims[op->getResult(0)] = result;
  return split;
}

//===-- Second walk: parts ------------------------------------------------------------------------------------------------------------===//

LogicalResult LocalLayouts::layOutRuled(Operation *op, const ShardingRule &rule) {
  FactorSplit split(rule.factors.size());
  SmallVector<Layout> operands;
  auto collect = [&](const TensorFactors &tensor, const Layout &layout) {
    for (auto [factors, axes] : llvm::zip_equal(tensor, layout.dims)) {
      if (!factors.empty()) {
        split[factors.front()] = axes;
      }
    }
  };
  for (auto [tensor, operand] : llvm::zip_equal(rule.operands, op->getOperands())) {
    collect(tensor, operands.emplace_back(knownLayout(operand)));
  }
  for (auto [tensor, result] : llvm::zip_equal(rule.results, op->getResults())) {
    collect(tensor, knownLayout(result));
  }
  std::string reason;
  FailureOr<SmallVector<Layout>> computed = resultLayoutsOfParts(op, rule, split, operands, reason);
  if (failed(computed)) {
    InFlightDiagnostic error = op->emitOpError() << "cannot compute on its pieces: " << reason;
    const Layout *parts = llvm::find_if(operands, [](const Layout &layout) { return layout.isPartial(); });
    if (parts != operands.end()) {
      error << "; put an AllReduce over " << printAxes(parts->partial) << " before it";
    }
    return error;
  }
  for (auto [result, layout] : llvm::zip_equal(op->getResults(), *computed)) {
    layouts[result] = layout;
    layouts[result].dims = knownLayout(result).dims; // also those of size-1 dims, which are no factors
  }
  return success();
}

// Checks that a collective combines what is there to combine, and takes its axes off.
LogicalResult LocalLayouts::layOutReduction(Operation *op, ArrayAttr attribute, Reduction reduction) {
  Layout layout = knownLayout(op->getOperand(0));
  AxisList axes = dist::toAxisList(attribute);
  bool isThere = layout.reduction == reduction && llvm::all_of(axes, [&](StringAttr a) { return llvm::is_contained(layout.partial, a); });
  if (!isThere) {
    return op->emitOpError() << "combines (" << stringifyReduction(reduction) << ") over " << printAxes(axes)
                             << " but its operand has layout " << layout.toString()
                             << ", which is not partial that way; take the axes out, or split what the op before it reduces";
  }
  llvm::erase_if(layout.partial, [&](StringAttr axis) { return llvm::is_contained(axes, axis); });
  layouts[op->getResult(0)].partial = layout.partial;
  layouts[op->getResult(0)].reduction = layout.reduction;
  return success();
}

LogicalResult LocalLayouts::checkBroadcast(dist::BroadcastOp op) {
  Layout layout = knownLayout(op.getInput());
  AxisList axes = dist::toAxisList(op.getAxes());
  if (llvm::any_of(axes, [&](StringAttr axis) { return layout.uses(axis); })) {
    return op.emitOpError() << "takes one device's copy over " << printAxes(axes) << " but its operand has layout " << layout.toString()
                            << ", of which the devices hold different pieces or parts; put an AllGather or AllReduce there";
  }
  return success();
}

LogicalResult LocalLayouts::layOut(Operation *op) {
  if (isa<nn::ReadOp>(op)) {
    return success();
  }
  if (auto broadcast = dyn_cast<dist::BroadcastOp>(op); broadcast && failed(checkBroadcast(broadcast))) {
    return failure();
  }
  if (auto ruled = dyn_cast<ShardingRuleOpInterface>(op)) {
    return layOutRuled(op, ruled.getShardingRule());
  }
  Value result = op->getResult(0);
  Layout before = knownLayout(op->getOperand(0));
  layouts[result] = before; // what a collective does not change
  LogicalResult reduced = success();
  if (auto allReduce = dyn_cast<dist::AllReduceOp>(op)) {
    reduced = layOutReduction(op, allReduce.getAxes(), allReduce.getReduction());
  } else if (auto scatter = dyn_cast<dist::ReduceScatterOp>(op)) {
    reduced = layOutReduction(op, scatter.getAxes(), scatter.getReduction());
  }
  layouts[result] = knownLayout(result);
  return reduced;
}

} // namespace ashlar::layout
