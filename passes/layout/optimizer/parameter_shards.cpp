// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of optimizer parallelism. Layouts are read from the module and nothing but the mesh is changed.

#include "passes/layout/optimizer/parameter_shards.h"

#include "dialects/support/element_type.h"
#include "passes/layout/rules/layout_text.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <numeric>

using namespace mlir;

namespace ashlar::layout {

namespace {

using dist::AxisList;
using dist::Layout;
using dist::MeshAttr;

// Returns what a device holds of a dim.
int64_t pieceOf(MeshAttr mesh, int64_t size, ArrayRef<StringAttr> axes) {
  return axes.empty() ? size : dist::pieceSizes(mesh, size, axes).back();
}

// Adds an axis to a dim. Returns false, and adds nothing, where there is nothing left to cut.
bool addAxis(MeshAttr mesh, int64_t size, AxisList &axes, StringAttr axis) {
  if (pieceOf(mesh, size, axes) <= 1) {
    return false;
  }
  axes.push_back(axis);
  return true;
}

// The layout with each axis in the dim where it leaves least, and the axes that found one.
std::pair<Layout, AxisList> splitByAxis(MeshAttr mesh, RankedTensorType type, Layout layout, ArrayRef<StringAttr> axes) {
  AxisList taken;
  for (StringAttr axis : axes) {
    std::optional<size_t> best;
    Layout found = layout;
    for (size_t dim = 0; dim < layout.dims.size(); ++dim) {
      Layout split = layout;
      if (addAxis(mesh, type.getDimSize(dim), split.dims[dim], axis) &&
          (!best || dist::localType(mesh, type, split).getNumElements() < dist::localType(mesh, type, found).getNumElements())) {
        best = dim;
        found = split;
      }
    }
    if (best) {
      taken.push_back(axis);
      layout = found;
    }
  }
  return {layout, taken};
}

} // namespace

Layout splitFurther(MeshAttr mesh, RankedTensorType type, const Layout &layout, ArrayRef<StringAttr> axes, AxisList &taken) {
  Layout best;
  std::tie(best, taken) = splitByAxis(mesh, type, layout, axes);
  int64_t least = dist::localType(mesh, type, best).getNumElements();
  for (size_t dim = 0; dim < layout.dims.size(); ++dim) { // one dim is one collective
    Layout split = layout;
    bool fits = llvm::all_of(axes, [&](StringAttr axis) { return addAxis(mesh, type.getDimSize(dim), split.dims[dim], axis); });
    if (fits && dist::localType(mesh, type, split).getNumElements() <= least) {
      taken.assign(axes.begin(), axes.end());
      return split;
    }
  }
  return best;
}

namespace {

// State: the cuts that the groups of the parameters so far ask for.
class ShardPlanner {
public:
  ShardPlanner(ModuleOp module, const ShardingRequest &request)
      : module(module), request(request), mesh(dist::findMesh(module).getMesh()), refinement(mesh) {}

  FailureOr<std::vector<ParameterShard>> run() {
    std::vector<SmallVector<AxisPart>> groups;
    for (nn::VariableOp variable : findTrained()) {
      shards.push_back({variable, {}, {}});
      groups.emplace_back();
      if (failed(chooseGroup(shards.back(), groups.back()))) {
        return failure();
      }
    }
    if (failed(refinement.check([&] { return module.emitError(); }))) {
      return failure();
    }
    refinement.apply(module);
    for (auto [shard, group] : llvm::zip_equal(shards, groups)) {
      split(shard, group);
    }
    return std::move(shards);
  }

private:
  std::vector<nn::VariableOp> findTrained() {
    llvm::StringSet<> trained;
    module.walk([&](nn::GradientOp gradient) { trained.insert(gradient.getVariable()); });
    std::vector<nn::VariableOp> variables(module.getOps<nn::VariableOp>().begin(), module.getOps<nn::VariableOp>().end());
    llvm::erase_if(variables, [&](nn::VariableOp variable) { return !trained.contains(variable.getSymName()); });
    return variables;
  }

  static Layout layoutOf(nn::VariableOp variable) { return variable->getAttrOfType<dist::LayoutAttr>(dist::kLayoutAttr).getLayout(); }

  // Returns the attribute that records why the parameter stays replicated.
  dist::ReplicatedAttr makeReplicated(nn::VariableOp variable, dist::ReplicatedReason reason) {
    RankedTensorType local = dist::localType(mesh, variable.getTensorType(), layoutOf(variable));
    return dist::ReplicatedAttr::get(module.getContext(), reason, static_cast<int64_t>(byteSize(local)), request.threshold);
  }

  // Chooses the axes, or parts of them, that split a parameter further: none, with the reason, when it stays replicated.
  LogicalResult chooseGroup(ParameterShard &shard, SmallVector<AxisPart> &group) {
    nn::VariableOp variable = shard.variable;
    Layout layout = layoutOf(variable);
    AxisList replicated(
        llvm::make_filter_range(mesh.getAxes(), [&](StringAttr axis) { return !layout.uses(axis) && mesh.axisSize(axis) > 1; }));
    auto asked = variable->getAttrOfType<BoolAttr>(dist::kOptimizerParallelAttr);
    bool isLarge = static_cast<int64_t>(byteSize(dist::localType(mesh, variable.getTensorType(), layout))) >= request.threshold;
    if (asked ? !asked.getValue() : !isLarge) {
      shard.replicated = makeReplicated(variable, asked ? dist::ReplicatedReason::OptedOut : dist::ReplicatedReason::BelowThreshold);
      return success();
    }
    if (replicated.empty()) {
      shard.replicated = makeReplicated(variable, dist::ReplicatedReason::NothingReplicated);
      return success();
    }
    if (request.shardSize < 0) {
      group = llvm::map_to_vector(replicated, [](StringAttr axis) { return AxisPart{axis.str()}; });
      return success();
    }
    return cutGroup(variable, replicated, group);
  }

  // Takes `shardSize` of the devices that replicate a parameter: neighbours, so minor axes first, and of an axis its minor part.
  LogicalResult cutGroup(nn::VariableOp variable, ArrayRef<StringAttr> replicated, SmallVector<AxisPart> &group) {
    int64_t left = request.shardSize, devices = mesh.groupSize(replicated);
    for (StringAttr axis : llvm::reverse(replicated)) {
      int64_t size = mesh.axisSize(axis), part = std::gcd(left, size);
      if (part > 1) {
        group.insert(group.begin(), part == size ? AxisPart{axis.str()} : AxisPart{axis.str(), size / part, part});
        left /= part;
      }
    }
    if (left != 1) {
      return variable.emitError() << "shard_size " << request.shardSize << " does not divide the " << devices
                                  << " devices that replicate parameter \"" << variable.getSymName()
                                  << "\"; choose a divisor, or -1 for all";
    }
    return success(
        llvm::all_of(group, [&](const AxisPart &part) { return succeeded(refinement.cut(part, [&] { return variable.emitError(); })); }));
  }

  // Splits a parameter over its group, on the refined mesh.
  void split(ParameterShard &shard, ArrayRef<AxisPart> group) {
    AxisList axes;
    llvm::for_each(group, [&](const AxisPart &part) { llvm::append_range(axes, refinement.expand(part)); });
    nn::VariableOp variable = shard.variable;
    MeshAttr refined = dist::findMesh(module).getMesh();
    shard.layout = splitFurther(refined, variable.getTensorType(), layoutOf(variable), axes, shard.axes);
    if (!shard.replicated && shard.axes.empty()) {
      mesh = refined;
      shard.replicated = makeReplicated(variable, dist::ReplicatedReason::TooFewElements);
    }
  }

  ModuleOp module;
  const ShardingRequest &request;
  MeshAttr mesh;
  MeshRefinement refinement;
  std::vector<ParameterShard> shards;
};

} // namespace

FailureOr<std::vector<ParameterShard>> shardParameters(ModuleOp module, const ShardingRequest &request) {
  return ShardPlanner(module, request).run();
}

} // namespace ashlar::layout
