// SPDX-License-Identifier: Apache-2.0
//
// An op computes its share of a factor unchanged wherever the factor is split. So it treats the elements of the factor alike, and computes
// the same in any order of them. That does not hold for factors whose elements are known by their place: windows, and rows found by number.

#include "passes/layout/redistribute/interleaved_dims.h"

#include "dialects/nn/nn.h"
#include "dialects/support/op_interfaces.h"
#include "dialects/support/tensor_values.h"

#include "llvm/ADT/TypeSwitch.h"

#include <numeric>

using namespace mlir;

namespace ashlar::layout {

namespace {

// Returns the values of an op, operands first, in the order of the tensors of its rule.
SmallVector<unsigned, 4> valuesOf(const ProblemOp &row) {
  SmallVector<unsigned, 4> values(row.operands.begin(), row.operands.end());
  llvm::append_range(values, row.results);
  return values;
}

// Whether an op that has the factor computes the same on any order of its elements.
bool commutes(const ProblemOp &row, int64_t factor) {
  const OpRule &rule = *row.rule;
  auto indexing = dyn_cast<IndexingOpInterface>(row.op);
  auto counts = [&](ValueRange values, ArrayRef<TensorFactors> dims) {
    return llvm::any_of(llvm::zip_equal(values, dims), [&](auto item) {
      auto [value, factors] = item;
      return value == indexing.getIndexed() && llvm::is_contained(factors[indexing.getIndexedDim()], factor);
    });
  };
  return mayBeSplit(rule.factors[factor].kind) && !isa<nn::GradientOp>(row.op) && !row.op->hasAttr(dist::kExplicitAttr) &&
         isWholeDim(rule.tensors, factor) &&
         llvm::none_of(rule.windows, [&](const WindowedDim &window) { return rule.factorOf(window) == factor; }) &&
         !(indexing && (counts(row.op->getOperands(), rule.operands) || counts(row.op->getResults(), rule.results)));
}

// Calls a function with the value and the dim of each place in the tensors of an op that holds a factor.
void forEachPlace(const ProblemOp &row, int64_t factor, llvm::function_ref<void(unsigned value, unsigned dim)> visit) {
  for (auto [value, dims] : llvm::zip_equal(valuesOf(row), row.rule->tensors)) {
    for (auto [dim, factors] : llvm::enumerate(dims)) {
      if (llvm::is_contained(factors, factor)) {
        visit(value, dim);
      }
    }
  }
}

// Returns a number that divides the first element of each part along a dim; 0 where an op does something else along the dim than to take
// out parts, or put parts together.
int64_t findUnit(Operation *op, unsigned dim) {
  return llvm::TypeSwitch<Operation *, int64_t>(op)
      .Case([&](nn::SliceOp slice) { return slice.getSteps()[dim] == 1 ? std::gcd(slice.getStarts()[dim], slice.getLimits()[dim]) : 0; })
      .Case([&](nn::PadOp pad) { return pad.getInterior()[dim] == 0 ? std::gcd(pad.getLow()[dim], pad.getType().getDimSize(dim)) : 0; })
      .Case([&](nn::ConcatOp concat) { return static_cast<unsigned>(concat.getDim()) == dim ? concat.getType().getDimSize(dim) : 0; })
      .Default(int64_t(0));
}

} // namespace

InterleavedDims::InterleavedDims(const LayoutProblem &problem) : problem(problem) {
  for (unsigned op = 0; op < problem.ops.size(); ++op) {
    addCuts(op);
  }
  if (llvm::none_of(cuts, [&](const PartCut &cut) { return problem.ops[cut.op].runs > 1; })) {
    cuts.clear();
    return;
  }
  unite();
  orderClasses();
  while (refuseInLoops()) {
  }
}

// Adds the dims that an op cuts into parts, if it shards them as the whole dim.
void InterleavedDims::addCuts(unsigned op) {
  const ProblemOp &row = problem.ops[op];
  const unsigned rank = row.rule && row.results.size() == 1 ? problem.typeOf(row.results.front()).getRank() : 0;
  for (unsigned dim = 0; dim < rank && !dist::isPlaced(row.op); ++dim) {
    int64_t unit = findUnit(row.op, dim), largest = 0;
    auto axesOf = [&](unsigned value) {
      return dist::withoutUnitAxes(problem.mesh, problem.tensors[problem.values[value].tensor].given->layout).dims[dim];
    };
    if (unit == 0) {
      continue;
    }
    const SmallVector<unsigned, 4> values = valuesOf(row);
    const AxisList axes = axesOf(values.front());
    for (unsigned value : values) {
      unit = std::gcd(unit, sizeOf(value, dim));
      largest = std::max(largest, sizeOf(value, dim));
    }
    const int64_t shards = problem.mesh.groupSize(axes);
    if (shards > 1 && unit < largest && unit % shards == 0 && llvm::all_of(values, [&](unsigned value) { return axesOf(value) == axes; })) {
      cuts.push_back({op, dim, unit, {largest / unit, shards, axes, row.op->getAttrOfType<ArrayAttr>(dist::kOriginsAttr)}});
      return; // along one dim
    }
  }
}

void InterleavedDims::unite() {
  unsigned count = 0;
  for (unsigned value = 0; value < problem.values.size(); ++value) {
    firstDims.push_back(count);
    count += problem.typeOf(value).getRank();
  }
  classes.grow(count);
  for (const ProblemOp &row : problem.ops) {
    for (int64_t factor = 0, e = row.rule ? row.rule->factors.size() : 0; factor < e; ++factor) {
      std::optional<unsigned> first;
      const bool unites = commutes(row, factor);
      forEachPlace(row, factor, [&](unsigned value, unsigned dim) {
        if (unites && !isFixed(value)) {
          const unsigned place = firstDims[value] + dim;
          first = first ? classes.join(*first, place) : place;
        }
      });
    }
  }
  classes.compress();
}

// Orders the classes of the cuts in loops; then, where they meet them, of other cuts: weights that a model puts together from parts, and
// their gradients.
void InterleavedDims::orderClasses() {
  llvm::DenseSet<Class> parts; // of cuts in front of and behind the loops
  SmallVector<bool> isTaken(cuts.size());
  for (bool changed = true; changed;) {
    changed = false;
    for (auto [number, cut] : llvm::enumerate(cuts)) {
      const int64_t unit = cut.unit;
      const bool isNew = takeUp(cut, parts) && !isTaken[number];
      isTaken[number] = isTaken[number] || isNew;
      changed |= isNew || cut.unit != unit;
    }
  }
}

// Orders the classes of a cut by the largest unit of its own and theirs, if it is in a loop or one of them is known. Returns whether it
// did.
bool InterleavedDims::takeUp(PartCut &cut, llvm::DenseSet<Class> &parts) {
  const ProblemOp &row = problem.ops[cut.op];
  const bool isInLoop = row.runs > 1;
  bool meets = isInLoop;
  int64_t unit = cut.unit;
  for (unsigned value : valuesOf(row)) {
    const Class each = classOf(value, cut.dim);
    if (const PartOrder *order = orderOf(each)) {
      unit = std::gcd(unit, sizeOf(value, cut.dim) / order->parts);
      meets = true;
      if (order->axes != cut.order.axes) {
        return false;
      }
    }
    meets |= parts.contains(each);
  }
  if (!meets || unit % cut.order.shards != 0) {
    return false;
  }
  cut.unit = unit;
  for (unsigned value : valuesOf(row)) {
    const Class each = classOf(value, cut.dim);
    if (const int64_t count = sizeOf(value, cut.dim) / unit; count > 1) {
      PartOrder &order = orders.try_emplace(each, cut.order).first->second;
      order.parts = count;
    } else if (!isInLoop) {
      parts.insert(each);
    }
  }
  return true;
}

// Drops orders in which a loop would have to put values in order. Returns whether there was one.
bool InterleavedDims::refuseInLoops() {
  llvm::DenseSet<Class> refused;
  for (auto [op, row] : llvm::enumerate(problem.ops)) {
    for (auto [operand, value] : llvm::enumerate(row.operands)) {
      for (unsigned dim = 0, rank = problem.typeOf(value).getRank(); dim < rank && problem.values[value].runs > 1; ++dim) {
        const PartOrder *made = findMade(value, dim), *taken = findTaken(op, operand, dim);
        if (made != taken) {
          llvm::for_each(orders, [&](auto &item) {
            if (&item.second == made || &item.second == taken) {
              refused.insert(item.first);
            }
          });
        }
      }
    }
  }
  llvm::for_each(refused, [&](Class each) { orders.erase(each); });
  return !refused.empty();
}

// Whether a value has the order of the model: arguments, variables and constants.
bool InterleavedDims::isFixed(unsigned value) const {
  std::optional<unsigned> maker = problem.values[value].maker;
  return !maker || !problem.ops[*maker].rule || problem.ops[*maker].isSource();
}

// Whether all tensors of a cut have the orders that it needs.
bool InterleavedDims::isOrdered(const PartCut &cut) const {
  return llvm::all_of(valuesOf(problem.ops[cut.op]), [&](unsigned value) {
    const PartOrder *order = orderOf(classOf(value, cut.dim));
    return (order ? order->parts : 1) == sizeOf(value, cut.dim) / cut.unit && (!order || order->axes == cut.order.axes);
  });
}

// Returns the order in which an op takes or makes a dim of one of its tensors, operands first; null for that of the model.
const PartOrder *InterleavedDims::findOrder(unsigned op, unsigned tensor, unsigned dim) const {
  const ProblemOp &row = problem.ops[op];
  if (!row.rule || orders.empty() || row.rule->tensors[tensor][dim].size() != 1) {
    return nullptr;
  }
  const PartCut *cut = llvm::lower_bound(cuts, op, [](const PartCut &each, unsigned number) { return each.op < number; });
  for (; cut != cuts.end() && cut->op == op; ++cut) {
    if (cut->dim == dim) {
      return isOrdered(*cut) ? orderOf(classOf(valuesOf(row)[tensor], dim)) : nullptr;
    }
  }
  const int64_t factor = row.rule->tensors[tensor][dim].front();
  const PartOrder *found = nullptr;
  const bool isAny = commutes(row, factor);
  forEachPlace(row, factor,
               [&](unsigned value, unsigned place) { found = isAny && !isFixed(value) ? orderOf(classOf(value, place)) : found; });
  return found;
}

const PartOrder *InterleavedDims::orderOf(Class of) const {
  auto order = orders.find(of);
  return order != orders.end() ? &order->second : nullptr;
}

const PartOrder *InterleavedDims::findMade(unsigned value, unsigned dim) const {
  if (isFixed(value)) {
    return nullptr;
  }
  const unsigned op = *problem.values[value].maker;
  const ProblemOp &row = problem.ops[op];
  return findOrder(op, row.operands.size() + (llvm::find(row.results, value) - row.results.begin()), dim);
}

const PartOrder *InterleavedDims::findTaken(unsigned op, unsigned operand, unsigned dim) const {
  return findOrder(op, operand, dim);
}

SmallVector<PartCut> InterleavedDims::getCuts() const {
  SmallVector<PartCut> ordered;
  llvm::copy_if(cuts, std::back_inserter(ordered), [&](const PartCut &cut) {
    return llvm::any_of(valuesOf(problem.ops[cut.op]), [&](unsigned value) { return orderOf(classOf(value, cut.dim)); }) && isOrdered(cut);
  });
  return ordered;
}

} // namespace ashlar::layout
