// SPDX-License-Identifier: Apache-2.0
//
// ashlar-group-weights: owners for trained parameters. Only the ends are marked, variables, what writes them, and broadcasts; what lies
// between is read off them. The subtle rule: state has an owner only as long as nothing that all devices compute reads it, so marks are
// taken off until none is left that does.

#include "dialects/dist/owners.h"
#include "dialects/nn/nn.h"
#include "dialects/nn/programs.h"
#include "dialects/support/element_type.h"
#include "passes/partition/passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

#include <tuple>

using namespace mlir;

namespace ashlar::partition {

#define GEN_PASS_DEF_GROUPWEIGHTSPASS
#include "passes/partition/passes.h.inc"

namespace {

// A trained parameter, what the optimizer keeps of it, and who does.
struct Parameter {
  nn::VariableOp variable;
  SmallVector<nn::VariableOp> states;
  int64_t stateBytes = 0;
  int64_t owner = 0;
};

bool isReplicated(nn::VariableOp variable) {
  auto layout = variable->getAttrOfType<dist::LayoutAttr>(dist::kLayoutAttr);
  return !layout || (!layout.getLayout().isSplit() && !layout.getLayout().isPartial());
}

// Returns the parameters with a gradient, in the order of the module, with their states.
std::vector<Parameter> findTrained(ModuleOp module) {
  llvm::StringSet<> trained;
  module.walk([&](nn::GradientOp gradient) { trained.insert(gradient.getVariable()); });
  std::vector<Parameter> parameters;
  llvm::StringMap<size_t> indices;
  for (auto variable : module.getOps<nn::VariableOp>()) {
    if (trained.contains(variable.getSymName())) {
      indices[variable.getSymName()] = parameters.size();
      parameters.push_back({variable, {}});
    }
  }
  for (auto variable : module.getOps<nn::VariableOp>()) {
    auto found = variable.getStateOf() ? indices.find(*variable.getStateOf()) : indices.end();
    if (found != indices.end() && isReplicated(variable)) {
      parameters[found->second].states.push_back(variable);
      parameters[found->second].stateBytes += byteSize(variable.getTensorType());
    }
  }
  return parameters;
}

// Chooses owners; O(parameters * devices). States of 9, 4, 4, 1 bytes on two devices: 0, 1, 1, 1.
void chooseOwners(std::vector<Parameter> &parameters, int64_t devices) {
  SmallVector<Parameter *> order = llvm::map_to_vector(parameters, [](Parameter &parameter) { return &parameter; });
  llvm::sort(order, [](Parameter *a, Parameter *b) { return std::tie(b->stateBytes, a) < std::tie(a->stateBytes, b); });
  SmallVector<std::tuple<int64_t, int64_t, int64_t>> loads; // bytes, parameters, number of the device
  for (int64_t device = 0; device < devices; ++device) {
    loads.emplace_back(0, 0, device);
  }
  for (Parameter *parameter : order) {
    auto &[bytes, count, device] = *llvm::min_element(loads);
    parameter->owner = device;
    bytes += parameter->stateBytes;
    ++count;
  }
}

class Grouping {
public:
  Grouping(ModuleOp module, std::vector<Parameter> &parameters) : module(module), mesh(dist::findMesh(module).getMesh()) {
    for (Parameter &parameter : parameters) {
      byName[parameter.variable.getSymName()] = &parameter;
      for (nn::VariableOp state : parameter.states) {
        owned[state.getSymName()] = {state, parameter.owner};
      }
    }
  }

  void run() {
    for (auto function : module.getOps<func::FuncOp>()) {
      if (!nn::hasRole(function, nn::ProgramRole::Init)) { // there all devices compute the same
        broadcast(function);
      }
    }
    for (auto &[name, state] : owned) {
      mark(state.variable, state.owner);
    }
    forEach<nn::WriteOp>([&](nn::WriteOp write, const State &state) { mark(write, state.owner); });
    while (dropShared()) {
    }
  }

private:
  struct State {
    nn::VariableOp variable;
    int64_t owner;
  };

  void mark(Operation *op, int64_t owner) { op->setAttr(dist::kOwnerAttr, Builder(op->getContext()).getI64IntegerAttr(owner)); }

  // Calls `body` with the reads, or the writes, of states that have an owner.
  template <typename OpTy, typename Body> void forEach(Body body) {
    module.walk([&](OpTy op) {
      if (auto found = owned.find(op.getVariable()); found != owned.end()) {
        body(op, found->second);
      }
    });
  }

  // Has all devices take the next values of parameters from their owners.
  void broadcast(func::FuncOp function) {
    dist::AxisList axes(llvm::make_filter_range(mesh.getAxes(), [&](StringAttr axis) { return mesh.axisSize(axis) > 1; }));
    for (auto write : function.front().getOps<nn::WriteOp>()) {
      Parameter *parameter = byName.lookup(write.getVariable());
      if (!parameter) {
        continue;
      }
      OpBuilder builder(write);
      auto end = dist::EndAttr::get(builder.getContext(), dist::EndKind::ParameterUpdate, write.getVariable());
      auto op = dist::BroadcastOp::create(builder, write.getLoc(), write.getValue().getType(), write.getValue(),
                                          builder.getI64IntegerAttr(parameter->owner), dist::toAttr(builder.getContext(), axes),
                                          builder.getArrayAttr(Attribute(end)));
      mark(op, parameter->owner);
      write.getValueMutable().assign(op.getResult());
    }
  }

  // Takes the marks off states that an op of other devices reads. Returns whether there were any: an op before it may then be one of all,
  // too.
  bool dropShared() {
    llvm::StringSet<> shared;
    for (auto function : module.getOps<func::FuncOp>()) {
      dist::Owners owners(function.front());
      for (auto read : function.front().getOps<nn::ReadOp>()) {
        auto found = owned.find(read.getVariable());
        bool isShared = found != owned.end() &&
                        llvm::any_of(read->getUsers(), [&](Operation *user) { return owners.takerOf(user) != found->second.owner; });
        if (isShared) {
          shared.insert(read.getVariable());
        }
      }
    }
    forEach<nn::WriteOp>([&](nn::WriteOp write, const State &) {
      if (shared.contains(write.getVariable())) {
        write->removeAttr(dist::kOwnerAttr);
      }
    });
    for (const auto &name : shared.keys()) {
      owned[name].variable->removeAttr(dist::kOwnerAttr);
      owned.erase(name);
    }
    return !shared.empty();
  }

  ModuleOp module;
  dist::MeshAttr mesh;
  llvm::StringMap<Parameter *> byName;
  llvm::StringMap<State> owned;
};

struct GroupWeights : impl::GroupWeightsPassBase<GroupWeights> {
  using GroupWeightsPassBase::GroupWeightsPassBase;

  LogicalResult check(dist::MeshOp mesh, ArrayRef<Parameter> parameters) {
    if (!mesh) {
      return getOperation().emitError("has no dist.mesh; run ashlar-seed-layouts first");
    }
    int64_t devices = mesh.getMesh().numDevices(), count = parameters.size();
    if (devicesPerProcess < 1 || devices % devicesPerProcess != 0) {
      return getOperation().emitError("devices-per-process is ")
             << devicesPerProcess.getValue() << ", which does not divide the " << devices << " devices of the mesh";
    }
    int64_t ranks = devices / devicesPerProcess;
    if (count < ranks) {
      return getOperation().emitError("parameter ownership gives each rank a parameter to own, but ")
             << count << (count == 1 ? " parameter is" : " parameters are") << " trained on " << ranks << " ranks; use at most "
             << std::max<int64_t>(count, 1) << ", or leave optimizer_parallel out";
    }
    for (const Parameter &parameter : parameters) {
      if (nn::VariableOp variable = parameter.variable; !isReplicated(variable)) {
        return variable.emitOpError("is sharded, but parameter ownership gives whole parameters to owners");
      }
    }
    return success();
  }

  void runOnOperation() override {
    dist::MeshOp mesh = dist::findMesh(getOperation());
    std::vector<Parameter> parameters = findTrained(getOperation());
    if (failed(check(mesh, parameters))) {
      return signalPassFailure();
    }
    if (mesh.getMesh().numDevices() > 1) {
      chooseOwners(parameters, mesh.getMesh().numDevices());
      Grouping(getOperation(), parameters).run();
    }
  }
};

} // namespace

} // namespace ashlar::partition
