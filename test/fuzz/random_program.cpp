// SPDX-License-Identifier: Apache-2.0
//
// From a seed to a module; see random_program.h.

#include "test/fuzz/random_program.h"

#include "compiler/pipelines/pipelines.h"
#include "dialects/nn/nn.h"
#include "test/fuzz/random_model.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace ashlar::fuzz {

namespace {

constexpr int64_t kMinOps = 5, kMaxOps = 25;

job::Job randomTraining(Dice &dice, int64_t batch) {
  job::Job job;
  job.set_global_batch(batch);
  switch (dice.roll(4)) {
  case 0:
    job.mutable_loss()->mutable_softmax_cross_entropy()->set_labels("labels");
    break;
  case 1:
    job.mutable_loss()->mutable_mean_squared_error()->set_target("labels");
    break;
  case 2:
    job.mutable_loss()->mutable_negative_log_likelihood()->set_labels("labels");
    break;
  default:
    job.mutable_loss()->mutable_model_output();
    break;
  }
  job::Optimizer &optimizer = *job.mutable_optimizer();
  optimizer.set_learning_rate(0.05);
  if (dice.oneIn(2)) {
    optimizer.mutable_momentum()->set_nesterov(dice.oneIn(2));
    optimizer.mutable_momentum()->set_weight_decay(dice.oneIn(2) ? 0.1 : 0);
  } else {
    optimizer.mutable_sgd()->set_weight_decay(dice.oneIn(2) ? 0.1 : 0);
  }
  return job;
}

// Gives `share` (1 to 3) of 3 variables, arguments and results a layout. Arguments of one name are one tensor, so they have one layout.
class LayoutGiver {
public:
  LayoutGiver(Dice &dice, dist::MeshAttr mesh) : dice(dice), mesh(mesh), share(1 + dice.roll(3)), uneven(dice.oneIn(2)) {}

  void give(ModuleOp module) {
    for (auto variable : module.getOps<nn::VariableOp>()) {
      if (Attribute layout = drawFor(variable.getTensorType())) {
        variable->setAttr(dist::kLayoutAttr, layout);
      }
    }
    for (auto function : module.getOps<func::FuncOp>()) {
      for (unsigned i = 0; i < function.getNumArguments(); ++i) {
        Attribute name = function.getArgAttr(i, nn::kNameAttr);
        if (!byName.count(name)) {
          byName[name] = drawFor(function.getArgumentTypes()[i]);
        }
        if (Attribute layout = byName[name]) {
          function.setArgAttr(i, dist::kLayoutAttr, layout);
        }
      }
      for (unsigned i = 0; i < function.getNumResults(); ++i) {
        if (Attribute layout = drawFor(function.getResultTypes()[i])) {
          function.setResultAttr(i, dist::kLayoutAttr, layout);
        }
      }
    }
  }

private:
  // Returns a layout, or null.
  Attribute drawFor(Type type) {
    if (dice.roll(3) >= share) {
      return {};
    }
    return dist::LayoutAttr::get(type.getContext(), randomLayout(dice, mesh, cast<RankedTensorType>(type).getShape(), uneven));
  }

  Dice &dice;
  dist::MeshAttr mesh;
  int64_t share;
  bool uneven;
  DenseMap<Attribute, Attribute> byName;
};

} // namespace

OwningOpRef<ModuleOp> randomProgram(MLIRContext &context, uint64_t seed, const ProgramOptions &options) {
  Dice dice(seed);
  dist::MeshAttr mesh = randomMesh(dice, context);
  ModelOptions model;
  model.floatType = options.f32Allowed && dice.oneIn(2) ? Type(Float32Type::get(&context)) : Float64Type::get(&context);
  model.sizes = randomSizes(dice, mesh);
  model.numOps = kMinOps + dice.roll(kMaxOps - kMinOps + 1);
  model.batch = dice.oneIn(2) ? dice.pick(model.sizes) : 0;
  job::Job job = model.batch != 0 ? randomTraining(dice, model.batch) : job::Job();

  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  addRandomModel(dice, *module, model);
  if (job.loss().has_negative_log_likelihood()) { // which is of log probabilities
    auto end = cast<func::ReturnOp>(module->lookupSymbol<func::FuncOp>("forward").front().getTerminator());
    OpBuilder builder(end);
    end.setOperand(0, nn::LogSoftmaxOp::create(builder, end.getLoc(), end.getOperand(0)));
  }
  PassManager passes(&context);
  pipelines::addTrainPasses(passes, job);
  if (failed(passes.run(*module))) {
    return {};
  }
  OpBuilder builder = OpBuilder::atBlockBegin(module->getBody());
  dist::MeshOp::create(builder, module->getLoc(), "mesh", mesh);
  if (dice.oneIn(2)) {
    (*module)->setAttr(kSplitVariablesAttr, builder.getUnitAttr());
  }
  LayoutGiver(dice, mesh).give(*module);
  return module;
}

} // namespace ashlar::fuzz
