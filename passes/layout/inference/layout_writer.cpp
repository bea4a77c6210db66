// SPDX-License-Identifier: Apache-2.0
//
// Layouts and their origins as attributes.

#include "passes/layout/inference/layout_writer.h"

#include "dialects/nn/nn.h"
#include "passes/layout/inference/given_attributes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace ashlar::layout {

namespace {

class LayoutWriter {
public:
  LayoutWriter(const LayoutProblem &problem, const Inference &inference)
      : problem(problem), inference(inference), context(problem.mesh.getContext()) {}

  void run() {
    for (auto [variable, tensor] : problem.variables) {
      variable->setDiscardableAttrs(describe(variable->getDiscardableAttrDictionary(), tensor));
    }
    for (const ProblemProgram &program : problem.programs) {
      func::FuncOp function = program.function;
      for (unsigned index = 0; index < function.getNumResults(); ++index) {
        function.setResultAttrs(index, describe(function.getResultAttrDict(index), problem.resultTensor(program, index)));
      }
      for (BlockArgument argument : function.getArguments()) {
        unsigned index = argument.getArgNumber();
        function.setArgAttrs(index, describe(function.getArgAttrDict(index), tensorOf(argument)));
      }
    }
    for (const ProblemOp &op : problem.ops) {
      writeOp(op);
    }
  }

private:
  unsigned tensorOf(Value value) const { return problem.values[problem.find(value)].tensor; }

  // Returns what is known of the origin of a tensor's given layout; empty when nothing is.
  ArrayRef<Attribute> givenOrigin(unsigned tensor) const {
    const std::optional<GivenLayout> &given = problem.tensors[tensor].given;
    return given && given->origin ? given->origin.getValue() : ArrayRef<Attribute>();
  }

  // Returns where `axis` of a tensor's layout came from, by what is known of the tensor that was given it; null when nothing is.
  dist::OriginAttr findOrigin(const AxisOrigin &axis) {
    SmallVector<Attribute> known(givenOrigin(axis.source));
    const ProblemTensor &source = problem.tensors[axis.source];
    const bool isGiven = source.given && source.given->layout.uses(axis.axis);
    if (source.suggested && source.suggested.getLayout().uses(axis.axis) && !isGiven) {
      known.insert(known.begin(), dist::OriginAttr::get(context, StringAttr::get(context, "sequence_parallel"), axis.axis, {}, {}));
    }
    for (Attribute attribute : known) {
      auto given = cast<dist::OriginAttr>(attribute);
      if (given.getAxis() && given.getAxis() != axis.axis) {
        continue;
      }
      StringAttr path = given.getPath(), kind = given.getOp();
      if (axis.op) {
        Operation *op = problem.ops[*axis.op].op;
        StringRef name = nn::getPath(op->getLoc());
        path = name.empty() ? StringAttr() : StringAttr::get(context, name);
        kind = op->getName().getIdentifier();
      }
      return dist::OriginAttr::get(context, given.getSource(), axis.axis, path, kind);
    }
    return {};
  }

  // Returns where the layout of a tensor came from, axis by axis: one origin without an axis where all came from one place. Empty when
  // nothing is known, or to say. What was given with all axes stays in the order in which it was given.
  ArrayAttr makeOrigin(unsigned tensor) {
    ArrayRef<AxisOrigin> axes = inference.getOrigins(tensor);
    SmallVector<Attribute> known, places;
    bool isOwn = llvm::none_of(axes, [](const AxisOrigin &axis) { return axis.op.has_value(); });
    if (isOwn && !problem.tensors[tensor].suggested && !givenOrigin(tensor).empty()) {
      llvm::copy_if(givenOrigin(tensor), std::back_inserter(known), [&](Attribute origin) {
        StringAttr axis = cast<dist::OriginAttr>(origin).getAxis();
        return !axes.empty() && (!axis || inference.getLayout(tensor).uses(axis));
      });
      return ArrayAttr::get(context, known);
    }
    for (const AxisOrigin &axis : axes) {
      if (dist::OriginAttr origin = findOrigin(axis)) {
        known.push_back(origin);
        places.push_back(dist::OriginAttr::get(context, origin.getSource(), {}, origin.getPath(), origin.getOp()));
      }
    }
    bool isOnePlace = !places.empty() && llvm::all_equal(places) && places.size() == axes.size();
    return ArrayAttr::get(context, isOnePlace ? ArrayRef(places).take_front() : ArrayRef(known));
  }

  // Appends the layout of a tensor, and its origin when there is one, to the attributes of a variable, argument or result.
  DictionaryAttr describe(DictionaryAttr attributes, unsigned tensor) {
    NamedAttrList list(attributes);
    list.erase(dist::kOpenAttr);
    list.erase(dist::kPriorityAttr);
    list.erase(dist::kOriginAttr);
    list.set(dist::kLayoutAttr, dist::LayoutAttr::get(context, inference.getLayout(tensor)));
    if (ArrayAttr origin = makeOrigin(tensor); !origin.empty()) {
      list.set(dist::kOriginAttr, origin);
    }
    return list.getDictionary(context);
  }

  // Whether an op says its layouts, and where they came from, as inference writes it.
  bool isWritten(const ProblemOp &row) const {
    auto has = [&](StringRef name) { return row.op->getDiscardableAttr(name) != nullptr; };
    return !row.variable && // whose layout is another's
           llvm::none_of(ArrayRef<StringRef>{dist::kOpensAttr, dist::kPrioritiesAttr, dist::kSuggestedAttr}, has) &&
           llvm::all_of(row.results, [&](unsigned value) {
             const unsigned tensor = problem.values[value].tensor;
             const std::optional<GivenLayout> &given = problem.tensors[tensor].given;
             return given && given->layout == inference.getLayout(tensor) && llvm::all_of(givenOrigin(tensor), [&](Attribute origin) {
                      StringAttr axis = cast<dist::OriginAttr>(origin).getAxis();
                      return !axis || given->layout.uses(axis);
                    });
           });
  }

  void writeOp(const ProblemOp &row) {
    Operation *op = row.op;
    if (isWritten(row)) {
      return;
    }
    NamedAttrList attributes(op->getDiscardableAttrDictionary());
    eraseGiven(attributes);
    SmallVector<Attribute> layouts, made;
    bool isKnown = false;
    for (unsigned value : row.results) {
      unsigned tensor = problem.values[value].tensor;
      layouts.push_back(dist::LayoutAttr::get(op->getContext(), inference.getLayout(tensor)));
      ArrayAttr origin = makeOrigin(tensor);
      isKnown |= !origin.empty();
      made.push_back(origin);
    }
    if (!layouts.empty()) {
      attributes.set(dist::kLayoutsAttr, ArrayAttr::get(op->getContext(), layouts));
    }
    if (isKnown) {
      attributes.set(dist::kOriginsAttr, ArrayAttr::get(op->getContext(), made));
    }
    op->setDiscardableAttrs(attributes.getDictionary(op->getContext()));
  }

  const LayoutProblem &problem;
  const Inference &inference;
  MLIRContext *context;
};

} // namespace

void writeLayouts(const LayoutProblem &problem, const Inference &inference) {
  LayoutWriter(problem, inference).run();
}

} // namespace ashlar::layout
