// SPDX-License-Identifier: Apache-2.0
//
// Reading and writing the attributes of given layouts. Ops have one of each a result, variables, arguments and results of functions one.

#include "passes/layout/inference/given_attributes.h"

using namespace mlir;

namespace ashlar::layout {

GivenAttributes readGiven(DictionaryAttr attributes) {
  GivenAttributes given;
  if (attributes) {
    auto priority = attributes.getAs<IntegerAttr>(dist::kPriorityAttr);
    given = {attributes.getAs<dist::LayoutAttr>(dist::kLayoutAttr), attributes.getAs<DenseI64ArrayAttr>(dist::kOpenAttr),
             priority ? priority.getInt() : 0, attributes.getAs<ArrayAttr>(dist::kOriginAttr)};
  }
  return given;
}

GivenAttributes readGiven(OpResult result) {
  Operation *op = result.getOwner();
  unsigned index = result.getResultNumber();
  GivenAttributes given{dist::findLayout(result), {}, 0, {}};
  if (auto opens = op->getAttrOfType<ArrayAttr>(dist::kOpensAttr)) {
    given.open = cast<DenseI64ArrayAttr>(opens[index]);
  }
  if (auto priorities = op->getAttrOfType<DenseI64ArrayAttr>(dist::kPrioritiesAttr)) {
    given.priority = priorities[index];
  }
  if (auto origins = op->getAttrOfType<ArrayAttr>(dist::kOriginsAttr)) {
    given.origin = cast<ArrayAttr>(origins[index]);
  }
  return given;
}

GivenAttributes readGiven(OpOperand &operand) {
  GivenAttributes given = readGiven(operand.getOwner()->getDiscardableAttrDictionary());
  auto layouts = operand.getOwner()->getAttrOfType<ArrayAttr>(dist::kOperandLayoutsAttr);
  given.layout = layouts ? dyn_cast<dist::LayoutAttr>(layouts[operand.getOperandNumber()]) : dist::LayoutAttr();
  return given;
}

namespace {

// Sets element `index` of an array attribute; without one the others become `others`.
void setElement(NamedAttrList &attributes, StringRef name, ArrayRef<Attribute> others, unsigned index, Attribute value) {
  auto existing = llvm::dyn_cast_or_null<ArrayAttr>(attributes.get(name));
  SmallVector<Attribute> list(existing ? existing.getValue() : others);
  list[index] = value;
  attributes.set(name, ArrayAttr::get(value.getContext(), list));
}

// A result of which nothing is said is replicated and open in all dims.
void writeResult(OpResult result, const GivenAttributes &given) {
  Operation *op = result.getOwner();
  unsigned index = result.getResultNumber();
  Builder builder(op->getContext());
  NamedAttrList attributes(op->getDiscardableAttrDictionary());
  SmallVector<Attribute> layouts, opens, origins;
  for (Value other : op->getResults()) {
    int64_t rank = cast<RankedTensorType>(other.getType()).getRank();
    layouts.push_back(dist::LayoutAttr::get(op->getContext(), dist::Layout::replicated(rank)));
    opens.push_back(builder.getDenseI64ArrayAttr(llvm::to_vector(llvm::seq<int64_t>(0, rank))));
    origins.push_back(builder.getArrayAttr({}));
  }
  SmallVector<int64_t> priorities(op->getNumResults(), 0);
  if (auto existing = llvm::dyn_cast_or_null<DenseI64ArrayAttr>(attributes.get(dist::kPrioritiesAttr))) {
    priorities.assign(existing.asArrayRef().begin(), existing.asArrayRef().end());
  }
  priorities[index] = given.priority;
  setElement(attributes, dist::kLayoutsAttr, layouts, index, given.layout);
  setElement(attributes, dist::kOpensAttr, opens, index, given.open);
  setElement(attributes, dist::kOriginsAttr, origins, index, given.origin);
  attributes.set(dist::kPrioritiesAttr, builder.getDenseI64ArrayAttr(priorities));
  op->setDiscardableAttrs(attributes.getDictionary(op->getContext()));
}

} // namespace

void writeGiven(const TensorRef &tensor, const GivenAttributes &given) {
  if (tensor.kind == TensorRef::OpResult) {
    return writeResult(tensor.op->getResult(tensor.index), given);
  }
  auto set = [&](StringRef name, Attribute value) {
    if (auto function = dyn_cast<func::FuncOp>(tensor.op)) {
      tensor.kind == TensorRef::Argument ? function.setArgAttr(tensor.index, name, value)
                                         : function.setResultAttr(tensor.index, name, value);
    } else {
      tensor.op->setAttr(name, value);
    }
  };
  Builder builder(given.layout.getContext());
  if (tensor.kind == TensorRef::Operand) {
    SmallVector<Attribute> others(tensor.op->getNumOperands(), builder.getUnitAttr());
    NamedAttrList attributes(tensor.op->getDiscardableAttrDictionary());
    setElement(attributes, dist::kOperandLayoutsAttr, others, tensor.index, given.layout);
    tensor.op->setDiscardableAttrs(attributes.getDictionary(tensor.op->getContext()));
  } else {
    set(dist::kLayoutAttr, given.layout);
  }
  set(dist::kOriginAttr, given.origin);
  if (!given.open.empty()) {
    set(dist::kOpenAttr, given.open);
  }
  if (given.priority != 0) {
    set(dist::kPriorityAttr, builder.getI64IntegerAttr(given.priority));
  }
}

void eraseGiven(NamedAttrList &attributes) {
  for (StringRef name :
       {dist::kOpensAttr, dist::kPrioritiesAttr, dist::kOriginsAttr, dist::kPriorityAttr, dist::kOriginAttr, dist::kSuggestedAttr}) {
    attributes.erase(name);
  }
}

} // namespace ashlar::layout
