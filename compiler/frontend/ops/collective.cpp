// SPDX-License-Identifier: Apache-2.0
//
// The collectives of the domain ai.ashlar.dist, in models that are the program of one device (mode HYBRID). Here they are checked against
// the mesh and the sizes; whether they fit the layouts is for ashlar-lift-hybrid.

#include "compiler/frontend/emit.h"
#include "compiler/frontend/registry.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

// Returns the mesh; fails when the job has another mode than HYBRID.
dist::MeshAttr meshOf(Node &node) {
  const ImportOptions &options = node.getInfo().options;
  if (!options.local) {
    node.fail("is a collective, which a model may hold only in mode HYBRID, but the job has mode " + options.mode +
              "; set mode: HYBRID in the job, or take the node out of the model");
  }
  return options.local->mesh;
}

// Returns the attribute "axes".
ArrayAttr axesOf(Node &node, dist::MeshAttr mesh) {
  std::vector<std::string> names = node.getStrings("axes"), known;
  for (StringAttr axis : mesh.getAxes()) {
    known.push_back(axis.str());
  }
  if (names.empty()) {
    node.fail("attribute \"axes\" names no mesh axis; there are \"" + llvm::join(known, "\", \"") + "\"");
  }
  SmallVector<StringAttr> axes;
  for (const std::string &name : names) {
    auto axis = node.builder().getStringAttr(name);
    if (!mesh.findAxis(axis)) {
      node.fail("attribute \"axes\" names \"" + name + "\", which the mesh does not have; there are \"" + llvm::join(known, "\", \"") +
                "\"");
    }
    if (llvm::is_contained(axes, axis)) {
      node.fail("attribute \"axes\" names \"" + name + "\" twice");
    }
    axes.push_back(axis);
  }
  return dist::toAttr(node.builder().getContext(), axes);
}

dist::ReductionAttr reductionOf(Node &node) {
  std::string name = node.getString("reduction", "sum");
  std::optional<Reduction> reduction = symbolizeReduction(name);
  if (!reduction) {
    node.fail("attribute \"reduction\" is \"" + name + "\"; one of sum, max, min");
  }
  return dist::ReductionAttr::get(node.builder().getContext(), *reduction);
}

// Returns a dim of the input that the node has to name.
int64_t dimOf(Node &node, StringRef attribute, RankedTensorType type) {
  if (!node.hasAttribute(attribute)) {
    node.fail("attribute \"" + attribute + "\" is missing; it names the dim");
  }
  return node.getAxis(attribute, 0, type.getRank());
}

// Returns the size of a dim divided by the devices that share it.
int64_t divideDim(Node &node, RankedTensorType type, int64_t dim, int64_t devices) {
  if (type.getDimSize(dim) % devices != 0) {
    node.fail("dim " + Twine(dim) + " of size " + Twine(type.getDimSize(dim)) + " is not divisible by the " + Twine(devices) +
              " devices that share it");
  }
  return type.getDimSize(dim) / devices;
}

// What all collectives have: an input, axes, and the number of devices of a group.
struct Group {
  explicit Group(Node &node)
      : mesh(meshOf(node)), axes(axesOf(node, mesh)), size(mesh.groupSize(dist::toAxisList(axes))), input(node.input(0)),
        type(typeOf(input)) {}

  dist::MeshAttr mesh;
  ArrayAttr axes;
  int64_t size;
  Value input;
  RankedTensorType type;
};

RankedTensorType withDim(RankedTensorType type, int64_t dim, int64_t size) {
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = size;
  return type.clone(shape);
}

void importAllReduce(Node &node) {
  Group group(node);
  node.setResult(0, node.create<dist::AllReduceOp>(group.type, reductionOf(node), group.input, group.axes, ArrayAttr(), dist::FusionAttr())
                        ->getResult(0));
}

void importAllGather(Node &node) {
  Group group(node);
  int64_t dim = dimOf(node, "dim", group.type);
  RankedTensorType type = withDim(group.type, dim, group.type.getDimSize(dim) * group.size);
  node.setResult(0, node.create<dist::AllGatherOp>(type, group.input, dim, group.axes, ArrayAttr(), dist::FusionAttr())->getResult(0));
}

void importReduceScatter(Node &node) {
  Group group(node);
  int64_t dim = dimOf(node, "dim", group.type);
  RankedTensorType type = withDim(group.type, dim, divideDim(node, group.type, dim, group.size));
  Reduction reduction = reductionOf(node).getValue();
  node.setResult(
      0, node.create<dist::ReduceScatterOp>(type, reduction, group.input, dim, group.axes, ArrayAttr(), dist::FusionAttr())->getResult(0));
}

void importAllToAll(Node &node) {
  Group group(node);
  int64_t split = dimOf(node, "split_dim", group.type), concat = dimOf(node, "concat_dim", group.type);
  if (split == concat) {
    node.fail("attributes \"split_dim\" and \"concat_dim\" both name dim " + Twine(split));
  }
  RankedTensorType type = withDim(group.type, split, divideDim(node, group.type, split, group.size));
  type = withDim(type, concat, type.getDimSize(concat) * group.size);
  node.setResult(0, node.create<dist::AllToAllOp>(type, group.input, split, concat, group.axes, ArrayAttr()).getResult());
}

void importBroadcast(Node &node) {
  Group group(node);
  int64_t root = node.getInt("root", 0);
  if (root < 0 || root >= group.size) {
    node.fail("attribute \"root\" is " + Twine(root) + " but a group has " + Twine(group.size) + " devices, from 0");
  }
  node.setResult(0, node.create<dist::BroadcastOp>(group.type, group.input, root, group.axes, ArrayAttr()).getResult());
}

constexpr RegistryRow kCollectiveRows[] = {
    {"ai.ashlar.dist.AllGather", importAllGather},         {"ai.ashlar.dist.AllReduce", importAllReduce},
    {"ai.ashlar.dist.AllToAll", importAllToAll},           {"ai.ashlar.dist.Broadcast", importBroadcast},
    {"ai.ashlar.dist.ReduceScatter", importReduceScatter},
};

} // namespace

ArrayRef<RegistryRow> collectiveRows() {
  return kCollectiveRows;
}

} // namespace ashlar::frontend
