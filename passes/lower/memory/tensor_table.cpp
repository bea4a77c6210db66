// SPDX-License-Identifier: Apache-2.0
//
// Collects the named tensors and gives each its place.

#include "passes/lower/memory/tensor_table.h"

#include "dialects/dist/owners.h"
#include "dialects/dist/stages.h"
#include "dialects/nn/counted_dims.h"
#include "dialects/nn/scratch_state.h"
#include "dialects/support/element_type.h"
#include "passes/lower/memory/arena.h"
#include "runtime/abi/ashlar_rt.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace ashlar::lower {

TensorTable::TensorTable(dist::MeshOp meshOp)
    : mesh(meshOp ? meshOp.getMesh() : dist::MeshAttr()), end(alignedBytes(mesh ? coordinateOffset(mesh.getAxes().size()) : 0)) {}

FailureOr<unsigned> TensorTable::add(Location loc, StringRef name, exec::Role role, Type type, Attribute layout, Attribute globalType,
                                     bool isInSlot) {
  auto local = cast<RankedTensorType>(type);
  if (local.getRank() > ASHLAR_RT_MAX_RANK) {
    return emitError(loc) << exec::stringifyRole(role) << " \"" << name << "\" has rank " << local.getRank() << " but the limit is "
                          << ASHLAR_RT_MAX_RANK << "; reshape it in the model";
  }
  NamedTensor tensor{name.str(), role, local, SmallVector<int64_t>(local.getShape()), {}, isInSlot ? slotEnd : end, loc};
  tensor.isInSlot = isInSlot;
  tensor.splits.resize(local.getRank());
  if (globalType) {
    tensor.globalShape = SmallVector<int64_t>(cast<RankedTensorType>(cast<TypeAttr>(globalType).getValue()).getShape());
  }
  if (layout) {
    dist::Layout value = cast<dist::LayoutAttr>(layout).getLayout();
    if (value.isPartial()) {
      return emitError(loc) << "\"" << name << "\" is partial over mesh axis " << value.partial.front()
                            << " but variables, inputs and outputs hold whole values";
    }
    for (auto [d, axes] : llvm::enumerate(value.dims)) {
      for (StringAttr axis : axes) {
        std::optional<unsigned> position = mesh ? mesh.findAxis(axis) : std::nullopt;
        if (!position) {
          return emitError(loc) << "dim " << d << " of \"" << name << "\" is split by " << axis << ", which is not an axis of the mesh";
        }
        tensor.splits[d].push_back(*position);
      }
    }
  }
  (isInSlot ? slotEnd : end) += alignedBytes(byteSize(local));
  list.push_back(std::move(tensor));
  return list.size() - 1;
}

LogicalResult TensorTable::addVariables(ModuleOp module) {
  for (auto op : module.getOps<nn::VariableOp>()) {
    bool isOfModel = !op.getInternal() && !op.getStateOf(); // parameters, frozen ones too, and running statistics
    exec::Role role = isOfModel ? exec::Role::Variable : exec::Role::State;
    auto layout = op->getAttrOfType<dist::LayoutAttr>(dist::kLayoutAttr);
    if (layout && nn::isScratch(op)) { // terms of a sum stay in the programs: outside of them only the sizes count
      dist::Layout pieces = layout.getLayout();
      pieces.partial.clear();
      layout = dist::LayoutAttr::get(op.getContext(), pieces);
    }
    FailureOr<unsigned> index = add(op.getLoc(), op.getSymName(), role, op.getTensorType(), layout, op->getAttr(dist::kGlobalTypeAttr));
    if (failed(index)) {
      return failure();
    }
    if (FlatSymbolRefAttr parameter = op.getStateOfAttr()) {
      list[*index].stateOf = parameter.getAttr();
    }
    list[*index].isInternal = op.getInternal();
    list[*index].isScratch = nn::isScratch(op);
    if (std::optional<int64_t> owner = dist::getOwner(op)) {
      list[*index].owner = owner;
      end = list[*index].offset; // it takes no bytes among the tensors of all devices
    }
    variables[op.getSymName()] = *index;
  }
  placeOwned();
  return success();
}

void TensorTable::placeOwned() {
  for (NamedTensor &tensor : list) {
    if (tensor.owner) {
      uint64_t &bytes = ownedBytes[*tensor.owner];
      tensor.offset = end + bytes;
      bytes += alignedBytes(byteSize(tensor.type));
    }
  }
  if (std::optional<int64_t> owner = largestOwner()) {
    end += ownedBytes[*owner];
  }
}

std::optional<int64_t> TensorTable::largestOwner() const {
  auto largest = llvm::max_element(ownedBytes, [](const auto &a, const auto &b) { return a.second < b.second; });
  return largest == ownedBytes.end() ? std::nullopt : std::optional(largest->first);
}

LogicalResult TensorTable::share(func::FuncOp function, DictionaryAttr attributes, Type type, exec::Role role,
                                 llvm::StringMap<unsigned> &known, SmallVectorImpl<unsigned> &indices) {
  StringRef what = exec::stringifyRole(role);
  auto name = attributes ? attributes.getAs<StringAttr>(nn::kNameAttr) : StringAttr();
  if (!name) {
    return function.emitOpError(what) << " " << indices.size() << " has no " << nn::kNameAttr;
  }
  if (auto it = known.find(name.getValue()); it != known.end()) {
    const NamedTensor &tensor = list[it->second];
    if (tensor.type != type) {
      return function.emitOpError(what) << " " << name << " has type " << type << " but another program has it with type " << tensor.type;
    }
    if (llvm::is_contained(indices, it->second)) {
      return function.emitOpError("has two ") << what << "s named " << name;
    }
    indices.push_back(it->second);
    return success();
  }
  bool isInSlot = attributes.contains(dist::kSlotAttr);
  FailureOr<unsigned> index = add(function.getLoc(), name.getValue(), role, type, attributes.get(dist::kLayoutAttr),
                                  attributes.get(dist::kGlobalTypeAttr), isInSlot);
  if (failed(index)) {
    return failure();
  }
  list[*index].isInternal = attributes.contains(nn::kInternalAttr);
  list[*index].counts = attributes.getAs<ArrayAttr>(nn::kCountsAttr);
  known[name.getValue()] = *index;
  indices.push_back(*index);
  return success();
}

LogicalResult TensorTable::addSignature(func::FuncOp function) {
  Signature &signature = signatures[function];
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
    if (failed(share(function, function.getArgAttrDict(i), type, exec::Role::Input, inputsByName, signature.inputs))) {
      return failure();
    }
  }
  if (failed(addPassed(function, /*sources=*/true))) {
    return failure();
  }
  for (auto [i, type] : llvm::enumerate(function.getResultTypes())) {
    if (failed(share(function, function.getResultAttrDict(i), type, exec::Role::Output, outputsByName, signature.outputs))) {
      return failure();
    }
  }
  return addPassed(function, /*sources=*/false);
}

LogicalResult TensorTable::addPassed(func::FuncOp function, bool sources) {
  for (auto op : function.front().getOps<dist::SlotOpInterface>()) {
    if (op.isSource() != sources) {
      continue;
    }
    RankedTensorType type = op.getSlotValue().getType();
    if (auto known = passedByName.find(op.getSlot()); known != passedByName.end()) {
      if (list[known->second].type != type) {
        return op.emitOpError("has type ") << type << " but another program has \"" << op.getSlot() << "\" with type "
                                           << list[known->second].type;
      }
      continue;
    }
    // It has one layout at both sides: what the device holds of it is all that it needs to know.
    FailureOr<unsigned> index =
        add(op.getLoc(), op.getSlot(), exec::Role::Passed, type, /*layout=*/{}, TypeAttr::get(type), /*isInSlot=*/true);
    if (failed(index)) {
      return failure();
    }
    passedByName[op.getSlot()] = *index;
  }
  return success();
}

std::vector<std::string> TensorTable::symbols(ArrayRef<StringRef> taken) const {
  llvm::StringSet<> used;
  used.insert(taken.begin(), taken.end());
  std::vector<std::string> result;
  for (const NamedTensor &tensor : list) {
    std::string symbol = tensor.name;
    while (!used.insert(symbol).second) {
      symbol += "." + exec::stringifyRole(tensor.role).str();
    }
    result.push_back(std::move(symbol));
  }
  return result;
}

} // namespace ashlar::lower
