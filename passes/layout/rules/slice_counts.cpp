// SPDX-License-Identifier: Apache-2.0
//
// From counts to axes: which dims are the same, what is left of the mesh, and one pass over the tuples.

#include "passes/layout/rules/slice_counts.h"

#include "passes/layout/inference/layout_problem.h"

#include "llvm/ADT/IntEqClasses.h"
#include "llvm/ADT/StringExtras.h"

#include <numeric>

using namespace mlir;

namespace ashlar::layout {

namespace {

using Parts = SmallVector<AxisPart, 2>;

// What is free of each mesh axis: pieces, none across a place where a rule cuts the axis already, so that parts nest.
class FreeAxes {
public:
  explicit FreeAxes(const MeshRefinement &refinement) : mesh(refinement.getMesh()) {
    for (StringAttr axis : mesh.getAxes()) {
      pieces.push_back(refinement.pieces(axis));
    }
  }

  // Takes axes whose sizes multiply to `count`; nothing when what is free cannot form it.
  std::optional<Parts> take(int64_t count) {
    if (count == 1) { // whole, also on a mesh with axes of size 1
      return Parts();
    }
    for (auto [axis, size, free] : llvm::zip_equal(mesh.getAxes(), mesh.getSizes(), pieces)) {
      int64_t left = 1;
      llvm::for_each(free, [&](const Piece &piece) { left *= piece.second / piece.first; });
      if (size == count && left == size) {
        free.clear();
        return Parts{{axis.str()}};
      }
    }
    FreeAxes before = *this;
    Parts taken;
    for (auto [axis, size, free] : llvm::zip_equal(mesh.getAxes(), mesh.getSizes(), pieces)) {
      for (auto &[begin, end] : free) {
        int64_t share = std::gcd(count, end / begin);
        if (share > 1) {
          taken.push_back(share == size ? AxisPart{axis.str()} : AxisPart{axis.str(), begin, share});
          begin *= share;
          count /= share;
        }
      }
      llvm::erase_if(free, [](const Piece &piece) { return piece.first == piece.second; });
    }
    if (count == 1) {
      return taken;
    }
    pieces = std::move(before.pieces);
    return std::nullopt;
  }

  // Takes axes out. Assumes that each is free.
  void remove(const Parts &parts) {
    for (const AxisPart &part : parts) {
      unsigned axis = *mesh.findAxis(StringAttr::get(mesh.getContext(), part.axis));
      int64_t begin = part.before, end = part.size == 0 ? mesh.getSizes()[axis] : begin * part.size;
      SmallVector<Piece> left;
      for (auto [from, to] : pieces[axis]) {
        if (end <= from || to <= begin) {
          left.push_back({from, to});
          continue;
        }
        if (from < begin) {
          left.push_back({from, begin});
        }
        if (end < to) {
          left.push_back({end, to});
        }
      }
      pieces[axis] = left;
    }
  }

private:
  using Piece = MeshRefinement::Piece;
  dist::MeshAttr mesh;
  SmallVector<SmallVector<Piece>> pieces; // of each axis
};

// Numbers the dims of all values of a problem, the same number for dims that its ops hold to be the same factor.
class SameDims {
public:
  explicit SameDims(const LayoutProblem &problem) : problem(problem) {
    unsigned numDims = 0;
    for (unsigned value = 0; value < problem.values.size(); ++value) {
      first.push_back(numDims);
      numDims += problem.typeOf(value).getRank();
    }
    classes.grow(numDims);
    for (const ProblemOp &op : problem.ops) {
      if (op.rule) {
        join(op);
      }
    }
    classes.compress();
  }

  unsigned operator()(Value value, int64_t dim) const { return classes[first[problem.find(value)] + dim]; }

private:
  // A dim of several factors is cut along the major one.
  void join(const ProblemOp &op) {
    SmallVector<std::optional<unsigned>> known(op.rule->factors.size());
    for (auto [value, tensor] : llvm::zip_equal(llvm::concat<const unsigned>(op.operands, op.results), op.rule->tensors)) {
      for (auto [dim, factors] : llvm::enumerate(tensor)) {
        if (factors.empty()) {
          continue;
        }
        std::optional<unsigned> &other = known[factors.front()];
        unsigned own = first[value] + dim;
        other ? (void)classes.join(*other, own) : (void)(other = own);
      }
    }
  }

  const LayoutProblem &problem;
  SmallVector<unsigned> first; // number of a value's dim 0, before joining
  llvm::IntEqClasses classes;
};

std::string printTuple(ArrayRef<int64_t> counts) {
  return "(" + llvm::join(llvm::map_range(counts, [](int64_t count) { return std::to_string(count); }), ", ") + ")";
}

// "dp=2, tp=4", as on the command line.
std::string printMesh(dist::MeshAttr mesh) {
  auto printAxis = [](auto item) {
    auto [axis, size] = item;
    return axis.str() + "=" + std::to_string(size);
  };
  return llvm::join(llvm::map_range(llvm::zip_equal(mesh.getAxes(), mesh.getSizes()), printAxis), ", ");
}

// State: the axes chosen for each dim so far, and what is left of the mesh.
class AxisAssignment {
public:
  AxisAssignment(const MeshRefinement &refinement, const OpGroup &group, function_ref<InFlightDiagnostic()> emitError)
      : refinement(refinement), group(group), problem(LayoutProblem::createFor(group.ops, refinement.getMesh())), dims(problem),
        free(refinement), emitError(emitError) {
    for (auto [number, op] : llvm::enumerate(group.ops)) {
      opNumbers[op] = number;
    }
  }

  // Splits the operands of the group as its inputs' tuples say.
  LogicalResult assignInputs(ArrayAttr tuples) {
    auto inputs = group.inputs();
    if (tuples.size() > inputs.size()) {
      return emitError() << "has " << tuples.size() << " tuples in `in` but the op has " << inputs.size() << " inputs";
    }
    for (auto [index, attribute, input] : llvm::zip(llvm::seq<size_t>(0, tuples.size()), tuples, inputs)) {
      ArrayRef<int64_t> counts = cast<DenseI64ArrayAttr>(attribute).asArrayRef();
      auto &[value, operands] = input;
      std::string what = "input " + std::to_string(index);
      if (failed(checkRank(what, counts, value)) || failed(checkWhole(what, counts, operands))) {
        return failure();
      }
      SmallVector<DimSplit> split;
      for (auto [dim, count] : llvm::enumerate(counts)) {
        FailureOr<Parts> parts = axesOf(what + " dim " + std::to_string(dim), dims(value, dim), count);
        if (failed(parts)) {
          return failure();
        }
        split.push_back({*parts});
      }
      for (OpOperand *operand : operands) {
        splits.push_back({{TensorRef::Operand, operand->getOwner(), operand->getOperandNumber()}, split});
      }
    }
    return success();
  }

  // Splits the results of the group. A dim that is split otherwise than inside the op takes the axes of a dim that is summed away, when
  // those fit: the sum is then scattered over them.
  LogicalResult assignOutputs(ArrayAttr tuples) {
    SmallVector<OpResult> outputs = group.outputs();
    if (tuples.size() > outputs.size()) {
      return emitError() << "has " << tuples.size() << " tuples in `out` but the op has " << outputs.size() << " outputs";
    }
    for (auto [index, attribute, result] : llvm::zip(llvm::seq<size_t>(0, tuples.size()), tuples, outputs)) {
      ArrayRef<int64_t> counts = cast<DenseI64ArrayAttr>(attribute).asArrayRef();
      std::string what = "output " + std::to_string(index);
      if (failed(checkRank(what, counts, result)) || failed(assignOutput(what, counts, result))) {
        return failure();
      }
    }
    return success();
  }

  SmallVector<TensorSplit> splits;

private:
  struct Chosen {
    std::string where; // the tuple that chose it
    int64_t count;
    Parts parts;
  };

  LogicalResult checkRank(const Twine &what, ArrayRef<int64_t> counts, Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    if (type.getRank() == static_cast<int64_t>(counts.size())) {
      return success();
    }
    return emitError() << "tuple " << printTuple(counts) << " of " << what << " counts " << counts.size()
                       << " dims but the tensor has type " << type << ", rank " << type.getRank();
  }

  // Checks that no dim is cut that an op needs whole.
  LogicalResult checkWhole(const Twine &what, ArrayRef<int64_t> counts, ArrayRef<OpOperand *> operands) {
    for (OpOperand *operand : operands) {
      const OpRule *rule = problem.ops[opNumbers.at(operand->getOwner())].rule.get();
      if (!rule) {
        continue;
      }
      for (auto [dim, factors] : llvm::enumerate(rule->operands[operand->getOperandNumber()])) {
        FactorKind kind = factors.empty() ? FactorKind::NeedReplication : rule->factors[factors.front()].kind;
        bool isWhole = !mayBeSplit(kind) && kind != FactorKind::Expanded;
        if (counts[dim] > 1 && isWhole) {
          return emitError() << "tuple " << printTuple(counts) << " of " << what << " cuts dim " << dim << ", which "
                             << operand->getOwner()->getName() << " needs whole; count 1 there";
        }
      }
    }
    return success();
  }

  // Returns the axes for a dim, new ones when it has none yet.
  FailureOr<Parts> axesOf(const std::string &where, unsigned dim, int64_t count) {
    if (auto found = chosen.find(dim); found != chosen.end()) {
      if (found->second.count != count) {
        return emitError() << where << " is cut into " << count << " slices but " << found->second.where
                           << ", which is the same to the op, into " << found->second.count << "; count alike";
      }
      return found->second.parts;
    }
    std::optional<Parts> parts = free.take(count);
    if (!parts) {
      return emitCannotForm(where, count);
    }
    chosen[dim] = {where, count, *parts};
    return *parts;
  }

  InFlightDiagnostic emitCannotForm(const Twine &where, int64_t count) {
    return emitError() << where << " is cut into " << count << " slices, which the free axes of mesh " << printMesh(refinement.getMesh())
                       << " does not form; the counts of a rule multiply to a divisor of its " << refinement.getMesh().numDevices()
                       << " devices";
  }

  LogicalResult assignOutput(const std::string &what, ArrayRef<int64_t> counts, OpResult result) {
    SmallVector<DimSplit> split(counts.size());
    SmallVector<bool> done(counts.size(), false);
    FreeAxes freeHere(refinement);
    DenseSet<unsigned> own;
    for (auto [dim, count] : llvm::enumerate(counts)) {
      unsigned number = dims(result, dim);
      own.insert(number);
      auto found = chosen.find(number);
      if (found == chosen.end()) { // nothing inside the op says otherwise
        FailureOr<Parts> parts = axesOf(what + " dim " + std::to_string(dim), number, count);
        if (failed(parts)) {
          return failure();
        }
        found = chosen.find(number);
      }
      if (found->second.count == count) {
        split[dim].axes = found->second.parts;
        freeHere.remove(found->second.parts);
        done[dim] = true;
      }
    }
    for (auto [dim, count] : llvm::enumerate(counts)) {
      if (done[dim]) {
        continue;
      }
      std::optional<Parts> parts = takeSummed(own, count);
      parts ? freeHere.remove(*parts) : (void)(parts = freeHere.take(count));
      if (!parts) {
        return emitCannotForm(what + " dim " + Twine(dim), count);
      }
      split[dim].axes = *parts;
    }
    splits.push_back({{TensorRef::OpResult, result.getOwner(), result.getResultNumber()}, split});
    return success();
  }

  // Returns the axes of a dim that the output lacks and that has this many slices, each such dim once; nothing when there is none.
  std::optional<Parts> takeSummed(DenseSet<unsigned> &own, int64_t count) {
    for (auto &[number, entry] : chosen) {
      if (entry.count == count && count > 1 && own.insert(number).second) {
        return entry.parts;
      }
    }
    return std::nullopt;
  }

  const MeshRefinement &refinement;
  const OpGroup &group;
  LayoutProblem problem; // of the group alone
  DenseMap<Operation *, unsigned> opNumbers;
  SameDims dims;
  FreeAxes free;
  function_ref<InFlightDiagnostic()> emitError;
  std::map<unsigned, Chosen> chosen; // by number of the dim
};

} // namespace

FailureOr<SmallVector<TensorSplit>> assignAxes(const MeshRefinement &refinement, dist::RuleAttr rule, const OpGroup &group,
                                               function_ref<InFlightDiagnostic()> emitError) {
  AxisAssignment assignment(refinement, group, emitError);
  if ((rule.getIn() && failed(assignment.assignInputs(rule.getIn()))) ||
      (rule.getOut() && failed(assignment.assignOutputs(rule.getOut())))) {
    return failure();
  }
  return std::move(assignment.splits);
}

} // namespace ashlar::layout
