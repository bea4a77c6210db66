// SPDX-License-Identifier: Apache-2.0
//
// Two walks over a local program: the first finds how dims are split, the second over which axes values are partial.

#include "passes/layout/hybrid/local_layouts.h"

#include "passes/layout/inference/partial_values.h"

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
  return indexing && value == indexing.getIndexed() && static_cast<int64_t>(dim) == indexing.getIndexedDim();
}

bool endsWith(ArrayRef<StringAttr> list, ArrayRef<StringAttr> end) {
  return list.size() >= end.size() && list.take_back(end.size()) == end;
}

} // namespace

LogicalResult LocalLayouts::run() {
  for (BlockArgument argument : func::FuncOp(program.function).getArguments()) {
    give(problem.find(argument));
  }
  ArrayRef<ProblemOp> ops = ArrayRef(problem.ops).slice(program.firstOp, program.endOp - program.firstOp).drop_back(); // but the return
  for (const ProblemOp &op : ops) {
    if (failed(splitOp(op))) {
      return failure();
    }
  }
  for (const ProblemOp &op : ops) {
    if (failed(layOut(op))) {
      return failure();
    }
  }
  return success();
}

// Gives a value the layout of its tensor.
void LocalLayouts::give(unsigned value) {
  const std::optional<GivenLayout> &given = problem.tensors[problem.values[value].tensor].given;
  layouts[value] = given ? given->layout : Layout::replicated(problem.typeOf(value).getRank());
  dims[value] = Dims(llvm::map_range(layouts[value]->dims, [&](const AxisList &axes) { return classes.add(axes); }));
}

// Returns what is known of the layout of a value: of dims, and of parts once the second walk has been there.
Layout LocalLayouts::knownLayout(unsigned value) {
  Layout layout = layouts[value].value_or(Layout::replicated(dims[value].size()));
  for (auto [d, dim] : llvm::enumerate(dims[value])) {
    const AxisList *axes = classes.find(dim);
    layout.dims[d] = axes ? *axes : AxisList();
  }
  return layout;
}

// "operand 0 has layout [{"dp"}, {"tp"}], operand 1 [{}, {}]"
std::string LocalLayouts::describeOperands(const ProblemOp &op) {
  std::string text;
  for (auto [i, operand] : llvm::enumerate(op.operands)) {
    text += (i == 0 ? "operand 0 has layout " : ", operand " + std::to_string(i) + " ") + knownLayout(operand).toString();
  }
  return text;
}

//===-- First walk: splits ------------------------------------------------------------------------------------------------------------===//

// A dim is split over axes by its major factor: a minor one would have to be split where the major one is not. Factors are joined with
// those of the tensors before; nothing is said of factors that only the result has (a broadcast).
LogicalResult LocalLayouts::joinFactors(const ProblemOp &op, unsigned value, const TensorFactors &tensor,
                                        SmallVectorImpl<std::optional<unsigned>> &factors) {
  const ShardingRule &rule = *op.rule;
  for (auto [d, dim] : llvm::enumerate(tensor)) {
    unsigned node = dims[value][d];
    // A local program places no exchange of windows, so its windowed dims are whole.
    auto holdsIt = [&, list = ArrayRef<int64_t>(dim)](const WindowedDim &window) {
      return !list.empty() && rule.factorOf(window) == list.front();
    };
    bool isWindowed = llvm::any_of(rule.windows, holdsIt);
    bool isWhole = dim.empty() || isWindowed || !mayBeSplit(rule.factors[dim.front()].kind) ||
                   holdsNumberedRows(op.op, problem.values[value].value, d);
    if (isWhole && failed(classes.merge(node, classes.add(AxisList())))) {
      return op.op->emitOpError() << "needs dim " << d << " of an operand whole but it has layout " << knownLayout(value).toString()
                                  << "; put an AllGather over " << printAxes(*classes.find(node)) << " along dim " << d << " before it";
    }
    for (auto [position, factor] : llvm::enumerate(dim)) {
      unsigned own = position == 0 ? node : classes.add(AxisList());
      if (!factors[factor]) {
        factors[factor] = own;
      } else if (failed(classes.merge(*factors[factor], own))) {
        return op.op->emitOpError() << "cannot compute on its pieces: " << describeOperands(op) << ", but its dims are " << rule.toString()
                                    << "; put a collective before it that makes them agree";
      }
    }
  }
  return success();
}

LogicalResult LocalLayouts::splitRuled(const ProblemOp &op) {
  SmallVector<std::optional<unsigned>> factors(op.rule->factors.size());
  for (unsigned result : op.results) {
    for (int64_t d = 0; d < problem.typeOf(result).getRank(); ++d) {
      dims[result].push_back(classes.add());
    }
  }
  for (auto [tensor, value] : llvm::zip_equal(op.rule->tensors, llvm::concat<const unsigned>(op.operands, op.results))) {
    if (failed(joinFactors(op, value, tensor, factors))) {
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

LogicalResult LocalLayouts::splitOp(const ProblemOp &row) {
  Operation *op = row.op;
  if (isa<nn::ReadOp>(op)) {
    give(row.results.front());
    return success();
  }
  if (row.rule) {
    return splitRuled(row);
  }
  if (!isa<dist::CollectiveOpInterface>(op)) {
    return op->emitOpError("has no sharding rule, so its layout is not known");
  }
  Dims result = dims[row.operands.front()];
  LogicalResult split =
      llvm::TypeSwitch<Operation *, LogicalResult>(op)
          .Case([&](dist::AllReduceOp) { return success(); })
          .Case([&](dist::AllGatherOp gather) { return gatherDim(op, result, gather.getDims().front(), gather.getAxes()); })
          .Case([&](dist::ReduceScatterOp scatter) {
            appendAxes(result, scatter.getDims().front(), scatter.getAxes());
            return success();
          })
          .Case([&](dist::AllToAllOp exchange) {
            appendAxes(result, exchange.getSplitDim(), exchange.getAxes());
            return gatherDim(op, result, exchange.getConcatDim(), exchange.getAxes());
          })
          .Default([](Operation *other) { return other->emitOpError("is no collective that a model may hold"); });
  dims[row.results.front()] = result;
  return split;
}

//===-- Second walk: parts ------------------------------------------------------------------------------------------------------------===//

LogicalResult LocalLayouts::layOutRuled(const ProblemOp &row) {
  Operation *op = row.op;
  const ShardingRule &rule = *row.rule;
  FactorSplit split(rule.factors.size());
  SmallVector<Layout> operands = llvm::map_to_vector(row.operands, [&](unsigned operand) { return knownLayout(operand); });
  for (auto [tensor, value] : llvm::zip_equal(row.rule->tensors, llvm::concat<const unsigned>(row.operands, row.results))) {
    for (auto [factors, axes] : llvm::zip_equal(tensor, knownLayout(value).dims)) {
      if (!factors.empty()) {
        split[factors.front()] = axes;
      }
    }
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
  for (auto [result, layout] : llvm::zip_equal(row.results, *computed)) {
    layouts[result] = layout;
    layouts[result]->dims = knownLayout(result).dims; // also those of size-1 dims, which are no factors
  }
  return success();
}

// Checks that a collective combines what is there to combine, and takes its axes off.
LogicalResult LocalLayouts::layOutReduction(const ProblemOp &op, ArrayAttr attribute, Reduction reduction) {
  Layout layout = knownLayout(op.operands.front());
  AxisList axes = dist::toAxisList(attribute);
  bool isThere = layout.reduction == reduction && llvm::all_of(axes, [&](StringAttr a) { return llvm::is_contained(layout.partial, a); });
  if (!isThere) {
    return op.op->emitOpError() << "combines (" << stringifyReduction(reduction) << ") over " << printAxes(axes)
                                << " but its operand has layout " << layout.toString()
                                << ", which is not partial that way; take the axes out, or shard the reduced dim of the op before it";
  }
  llvm::erase_if(layout.partial, [&](StringAttr axis) { return llvm::is_contained(axes, axis); });
  layouts[op.results.front()]->partial = layout.partial;
  layouts[op.results.front()]->reduction = layout.reduction;
  return success();
}

LogicalResult LocalLayouts::checkBroadcast(dist::BroadcastOp op) {
  Layout layout = knownLayout(op.getInput());
  AxisList axes = dist::toAxisList(op.getAxes());
  if (llvm::any_of(axes, [&](StringAttr axis) { return layout.uses(axis); })) {
    return op.emitOpError() << "takes one device's copy over " << printAxes(axes) << " but its operand has layout " << layout.toString()
                            << ", which differs between the devices (sharded or partial); put an AllGather or AllReduce there";
  }
  return success();
}

LogicalResult LocalLayouts::layOut(const ProblemOp &row) {
  Operation *op = row.op;
  if (isa<nn::ReadOp>(op)) {
    return success();
  }
  if (auto broadcast = dyn_cast<dist::BroadcastOp>(op); broadcast && failed(checkBroadcast(broadcast))) {
    return failure();
  }
  if (row.rule) {
    return layOutRuled(row);
  }
  unsigned result = row.results.front();
  layouts[result] = knownLayout(row.operands.front()); // what a collective does not change
  LogicalResult reduced = success();
  if (auto allReduce = dyn_cast<dist::AllReduceOp>(op)) {
    reduced = layOutReduction(row, allReduce.getAxes(), allReduce.getReduction());
  } else if (auto scatter = dyn_cast<dist::ReduceScatterOp>(op)) {
    reduced = layOutReduction(row, scatter.getAxes(), scatter.getReduction());
  }
  layouts[result] = knownLayout(result);
  return reduced;
}

} // namespace ashlar::layout
