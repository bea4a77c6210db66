// SPDX-License-Identifier: Apache-2.0
//
// See result_names.h.

#include "dialects/nn/result_names.h"

#include "dialects/nn/nn.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace ashlar::nn {

namespace {

// Adds a name to an array of names, null for none.
ArrayAttr withName(Builder &builder, ArrayAttr names, StringRef name) {
  SmallVector<Attribute> all = names ? llvm::to_vector(names) : SmallVector<Attribute>();
  all.push_back(builder.getStringAttr(name));
  return builder.getArrayAttr(all);
}

} // namespace

void addName(OpResult result, StringRef name) {
  Operation *op = result.getOwner();
  Builder builder(op->getContext());
  const unsigned number = result.getResultNumber(), count = op->getNumResults();
  auto names = op->getAttrOfType<ArrayAttr>(kOutputsAttr);
  SmallVector<Attribute> all = names ? llvm::to_vector(names) : SmallVector<Attribute>(count, builder.getStringAttr(""));
  if (cast<StringAttr>(all[number]).empty()) {
    all[number] = builder.getStringAttr(name);
    op->setAttr(kOutputsAttr, builder.getArrayAttr(all));
    return;
  }
  auto aliases = op->getAttrOfType<ArrayAttr>(kAliasesAttr);
  if (count == 1) {
    op->setAttr(kAliasesAttr, withName(builder, aliases, name));
    return;
  }
  SmallVector<Attribute> each = aliases ? llvm::to_vector(aliases) : SmallVector<Attribute>(count, builder.getArrayAttr({}));
  each[number] = withName(builder, cast<ArrayAttr>(each[number]), name);
  op->setAttr(kAliasesAttr, builder.getArrayAttr(each));
}

SmallVector<StringRef> namesOf(OpResult result) {
  SmallVector<StringRef> all;
  Operation *op = result.getOwner();
  if (auto names = op->getAttrOfType<ArrayAttr>(kOutputsAttr); names && result.getResultNumber() < names.size()) {
    if (StringRef name = cast<StringAttr>(names[result.getResultNumber()]).getValue(); !name.empty()) {
      all.push_back(name);
    }
  }
  auto aliases = op->getAttrOfType<ArrayAttr>(kAliasesAttr);
  if (aliases && op->getNumResults() > 1) {
    aliases = cast<ArrayAttr>(aliases[result.getResultNumber()]);
  }
  for (Attribute alias : aliases ? aliases.getValue() : ArrayRef<Attribute>()) {
    all.push_back(cast<StringAttr>(alias).getValue());
  }
  return all;
}

void moveNames(OpResult from, OpResult to) {
  for (StringRef name : namesOf(from)) {
    addName(to, name);
  }
}

} // namespace ashlar::nn
