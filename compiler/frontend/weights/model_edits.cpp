// SPDX-License-Identifier: Apache-2.0
//
// The attribute is an array of three arrays: [added, inputs, dropped].

#include "compiler/frontend/weights/model_edits.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

constexpr llvm::StringLiteral kEditsAttr = "nn.model_edits";

std::string stringAt(ArrayAttr list, size_t index) {
  return cast<StringAttr>(list[index]).str();
}

} // namespace

void ModelEdits::attachTo(ModuleOp module) const {
  if (isEmpty()) {
    return;
  }
  Builder builder(module.getContext());
  SmallVector<Attribute> lists[3];
  for (const Added &each : added) {
    lists[0].push_back(builder.getStrArrayAttr({each.name, each.from}));
  }
  for (const Input &each : inputs) {
    lists[1].push_back(
        builder.getArrayAttr({builder.getStringAttr(each.node), builder.getI64IntegerAttr(each.index), builder.getStringAttr(each.name)}));
  }
  for (const std::string &each : dropped) {
    lists[2].push_back(builder.getStringAttr(each));
  }
  module->setAttr(kEditsAttr,
                  builder.getArrayAttr({builder.getArrayAttr(lists[0]), builder.getArrayAttr(lists[1]), builder.getArrayAttr(lists[2])}));
}

ModelEdits ModelEdits::of(ModuleOp module) {
  ModelEdits edits;
  auto lists = module->getAttrOfType<ArrayAttr>(kEditsAttr);
  if (!lists) {
    return edits;
  }
  for (auto each : cast<ArrayAttr>(lists[0]).getAsRange<ArrayAttr>()) {
    edits.added.push_back({stringAt(each, 0), stringAt(each, 1)});
  }
  for (auto each : cast<ArrayAttr>(lists[1]).getAsRange<ArrayAttr>()) {
    edits.inputs.push_back({stringAt(each, 0), cast<IntegerAttr>(each[1]).getInt(), stringAt(each, 2)});
  }
  for (auto each : cast<ArrayAttr>(lists[2]).getAsRange<StringAttr>()) {
    edits.dropped.push_back(each.str());
  }
  return edits;
}

} // namespace ashlar::frontend
