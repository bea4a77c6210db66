// SPDX-License-Identifier: Apache-2.0
//
// From a seed to a module; see random_program.h.

#include "test/fuzz/random_program.h"

#include "compiler/pipelines/pipelines.h"
#include "dialects/dist/recompute_rules.h"
#include "dialects/dist/stages.h"
#include "dialects/nn/nn.h"
#include "dialects/nn/paths.h"
#include "dialects/nn/programs.h"
#include "dialects/support/tensor_values.h"
#include "passes/analysis/costs.h"
#include "test/fuzz/random_model.h"
#include "test/fuzz/random_optimizer.h"
#include "test/fuzz/random_pipeline.h"
#include "test/fuzz/shape_pairs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"

#include "llvm/Support/FormatVariadic.h"

#include <optional>

using namespace mlir;

namespace ashlar::fuzz {

namespace {

constexpr int64_t kMinOps = 5, kMaxOps = 25;
constexpr int64_t kTurnOdds = 24; // of training in f64

// A random program may couple the samples of its batch in any way: the loss of a step is the mean of those of its micro-batches.
void takeMeanOfMicroBatches(job::Loss &loss) {
  switch (loss.kind_case()) {
  case job::Loss::kSoftmaxCrossEntropy:
    return loss.mutable_softmax_cross_entropy()->set_micro_batches(job::Loss::MEAN);
  case job::Loss::kMeanSquaredError:
    return loss.mutable_mean_squared_error()->set_micro_batches(job::Loss::MEAN);
  case job::Loss::kNegativeLogLikelihood:
    return loss.mutable_negative_log_likelihood()->set_micro_batches(job::Loss::MEAN);
  default:
    return loss.mutable_model_output()->set_micro_batches(job::Loss::MEAN);
  }
}

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

// Gives half of the meshes costs of their links, and half of them another order of the ranks.
void describeMesh(Dice &dice, dist::MeshOp op) {
  Builder b(op.getContext());
  size_t axes = op.getMesh().getAxes().size();
  if (dice.oneIn(2)) {
    SmallVector<analysis::Link> links(axes);
    for (analysis::Link &link : links) {
      link.latencyNs = 100 + dice.roll(10000);
      link.bytesPerUs = 1 + dice.roll(30000);
      link.movesBeside = dice.oneIn(2);
      if (dice.oneIn(4)) { // a kind that is faster or slower than others
        CollectiveKind kind = analysis::kSendingKinds[dice.roll(std::size(analysis::kSendingKinds))];
        link.set(kind, {100 + dice.roll(10000), 1 + dice.roll(30000)});
      }
    }
    op.setCostsAttr(analysis::costsOf(op.getContext(), links));
  }
  if (dice.oneIn(2)) {
    SmallVector<int64_t> ranks;
    for (int64_t device = 0; device < op.getMesh().numDevices(); ++device) {
      ranks.insert(ranks.begin() + dice.roll(device + 1), device);
    }
    op.setDeviceIdsAttr(b.getDenseI64ArrayAttr(ranks));
  }
}

// Gives a share of the variables, arguments, results and ops a layout; some with open dims and priorities. Arguments of one name are one
// tensor, so they have one layout.
class LayoutGiver {
public:
  LayoutGiver(Dice &dice, dist::MeshAttr mesh)
      : dice(dice), mesh(mesh), b(mesh.getContext()), share(1 + dice.roll(3)), uneven(dice.oneIn(2)), onOps(dice.oneIn(2)),
        refined(dice.oneIn(2)) {}

  void give(ModuleOp module) {
    for (auto variable : module.getOps<nn::VariableOp>()) {
      for (NamedAttribute attribute : drawFor(variable.getTensorType())) {
        variable->setAttr(attribute.getName(), attribute.getValue());
      }
    }
    for (auto function : module.getOps<func::FuncOp>()) {
      for (unsigned i = 0; i < function.getNumArguments(); ++i) {
        Attribute name = function.getArgAttr(i, nn::kNameAttr);
        if (!byName.count(name)) {
          byName[name] = drawFor(function.getArgumentTypes()[i]);
        }
        for (NamedAttribute attribute : byName[name]) {
          function.setArgAttr(i, attribute.getName(), attribute.getValue());
        }
      }
      for (unsigned i = 0; i < function.getNumResults(); ++i) {
        for (NamedAttribute attribute : drawFor(function.getResultTypes()[i])) {
          function.setResultAttr(i, attribute.getName(), attribute.getValue());
        }
      }
      function.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
        if (onOps && isa<ShardingRuleOpInterface>(op)) {
          giveOp(*op);
        }
      });
    }
  }

private:
  dist::LayoutAttr layoutOf(Type type) {
    return dist::LayoutAttr::get(b.getContext(), randomLayout(dice, mesh, cast<RankedTensorType>(type).getShape(), uneven));
  }

  DenseI64ArrayAttr openDims(Type type) {
    SmallVector<int64_t> dims;
    for (int64_t d = 0; d < cast<RankedTensorType>(type).getRank(); ++d) {
      if (dice.oneIn(2)) {
        dims.push_back(d);
      }
    }
    return b.getDenseI64ArrayAttr(dims);
  }

  // Returns the attributes of a layout, or none.
  SmallVector<NamedAttribute> drawFor(Type type) {
    SmallVector<NamedAttribute> attributes;
    if (dice.roll(3) < share) {
      attributes.push_back(b.getNamedAttr(dist::kLayoutAttr, layoutOf(type)));
      if (refined && dice.oneIn(2)) {
        attributes.push_back(b.getNamedAttr(dist::kOpenAttr, openDims(type)));
        attributes.push_back(b.getNamedAttr(dist::kPriorityAttr, b.getI64IntegerAttr(dice.roll(3))));
      }
    }
    return attributes;
  }

  // The layout of the result of one op in ten, and of the operands of one in twenty.
  void giveOp(Operation &op) {
    if (dice.oneIn(10)) {
      Type type = op.getResult(0).getType();
      op.setAttr(dist::kLayoutsAttr, b.getArrayAttr(layoutOf(type)));
      if (refined && dice.oneIn(2)) {
        op.setAttr(dist::kOpensAttr, b.getArrayAttr(openDims(type)));
        op.setAttr(dist::kPrioritiesAttr, b.getDenseI64ArrayAttr(dice.roll(3)));
      }
    }
    if (op.getNumOperands() > 0 && dice.oneIn(20)) {
      SmallVector<Attribute> layouts;
      for (Type type : op.getOperandTypes()) {
        layouts.push_back(dice.oneIn(2) ? Attribute(layoutOf(type)) : b.getUnitAttr());
      }
      op.setAttr(dist::kOperandLayoutsAttr, b.getArrayAttr(layouts));
    }
  }

  Dice &dice;
  dist::MeshAttr mesh;
  Builder b;
  int64_t share; // thirds of the variables, arguments and results
  bool uneven, onOps, refined;
  DenseMap<Attribute, SmallVector<NamedAttribute>> byName;
};

// What a seed's program has beside what its own dice say, by dice of its own.
struct Variety {
  Variety() = default;
  explicit Variety(uint64_t seed) {
    Dice dice(~seed);
    isLarge = dice.oneIn(8);
    int64_t kind = dice.roll(8);
    isF32 = kind < 4;
    narrow = kind == 0 ? job::BF16_MIXED : kind == 1 ? job::F16_MIXED : job::F32;
    lossScale = 1 << dice.roll(8); // small enough for gradients of f16 to stay finite
    optimizer = randomOptimizer(dice);
    accumulate = dice.oneIn(4) ? 2 + dice.roll(3) : 1;
  }

  // Gives a training job an optimizer of all there are; its model then is that of a micro-batch.
  void train(job::Job &job) const {
    if (job.has_loss() && optimizer) {
      *job.mutable_optimizer() = *optimizer;
      takeMeanOfMicroBatches(*job.mutable_loss());
      job.set_accumulate(accumulate);
      job.set_global_batch(job.global_batch() * accumulate);
    }
  }

  bool isLarge = false, isF32 = false;
  job::Precision narrow = job::F32;
  double lossScale = 1;
  std::optional<job::Optimizer> optimizer; // none: that of the program's own dice
  int64_t accumulate = 1;
};

// Replaces the first output by its mean: a loss that the model computes is one number.
void averageOutput(func::FuncOp forward) {
  Operation *end = forward.front().getTerminator();
  OpBuilder builder(end);
  Value output = end->getOperand(0);
  int64_t rank = typeOf(output).getRank(), count = typeOf(output).getNumElements();
  Value sum = nn::ReduceOp::create(builder, end->getLoc(), Reduction::Sum, output, llvm::to_vector(llvm::seq<int64_t>(0, rank)));
  Value share = nn::ConstantOp::create(builder, end->getLoc(), nn::splat(typeOf(sum), 1.0 / count));
  end->setOperand(0, nn::MulOp::create(builder, end->getLoc(), sum, share));
  forward.setType(builder.getFunctionType(forward.getArgumentTypes(), end->getOperandTypes()));
}

// Sizes beyond what kernels take at once.
void enlarge(ModelOptions &model) {
  constexpr int64_t kFactor = 8, kMaxElements = 6000;
  for (int64_t &size : model.sizes) {
    size = size * kFactor + 1;
  }
  model.batch *= 2;
  model.maxElements = kMaxElements;
}

// Gives the ops of one in three models module paths: modules of a few ops each, "m0.op3".
void nameModules(uint64_t seed, ModuleOp module) {
  Dice dice(seed * 7 + 5);
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  int64_t number = 0, count = 0;
  forward.getBody().walk([&](Operation *op) { // a repeat behind its body, parts of which may be in front of it in the end
    if (!dice.oneIn(3) && number == 0) {
      return WalkResult::interrupt();
    }
    number += number == 0 || dice.oneIn(5) ? 1 : 0;
    op->setLoc(NameLoc::get(StringAttr::get(module.getContext(), llvm::formatv("m{0}.op{1}", number - 1, count++).str())));
    return WalkResult::advance();
  });
}

// Returns an optimizer whose steps have a length of their own, whatever that of the gradient: where rounding decides the gradient, it
// decides where they go.
job::Optimizer randomTurns(job::Optimizer optimizer) {
  constexpr double kRate = 0.05;
  optimizer.mutable_lamb()->clear_weight_decay();
  optimizer.clear_schedule();
  optimizer.set_learning_rate(std::max(optimizer.learning_rate(), kRate));
  return optimizer;
}

// Draws the model of a seed for a mesh.
RandomModel drawModel(Dice &dice, dist::MeshAttr mesh, uint64_t seed, const ProgramOptions &options) {
  MLIRContext &context = *mesh.getContext();
  ModelOptions model;
  model.sizes = randomSizes(dice, mesh);
  model.numOps = kMinOps + dice.roll(kMaxOps - kMinOps + 1);
  model.batch = dice.oneIn(2) ? dice.pick(model.sizes) : 0;
  Variety variety = options.varied ? Variety(seed) : Variety();
  if (dice.oneIn(2) && variety.isLarge) {
    enlarge(model);
  }
  model.jumps = variety.narrow == job::F32;
  model.floatType = variety.isF32 ? Type(Float32Type::get(&context)) : Float64Type::get(&context);
  const bool turns = options.varied && !variety.isF32 && model.batch != 0 && Dice(seed * 19 + 17).oneIn(kTurnOdds);
  if (turns) {
    model.flat = true;
    model.numOps = kMinOps; // it runs many times
  }
  job::Job job = model.batch != 0 ? randomTraining(dice, model.batch) : job::Job();
  variety.train(job);
  if (turns) {
    *job.mutable_optimizer() = randomTurns(job.optimizer());
  }
  job.set_precision(variety.narrow);
  job.mutable_loss_scale()->set_initial(variety.lossScale);

  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  addRandomModel(dice, *module, model);
  nameModules(seed, *module);
  if (job.loss().has_negative_log_likelihood()) { // which is of log probabilities
    auto end = cast<func::ReturnOp>(module->lookupSymbol<func::FuncOp>("forward").front().getTerminator());
    OpBuilder builder(end);
    end.setOperand(0, nn::LogSoftmaxOp::create(builder, end.getLoc(), end.getOperand(0)));
  } else if (job.loss().has_model_output()) {
    averageOutput(module->lookupSymbol<func::FuncOp>("forward"));
  }
  return {std::move(module), std::move(job)};
}

// Has half of the training programs split their optimizer. Where all parameters are whole, groups of devices may share one.
void splitOptimizer(Dice &dice, dist::MeshAttr mesh, ModuleOp module) {
  if (!nn::findProgram(module, nn::ProgramRole::TrainStep) || dice.oneIn(2)) {
    return;
  }
  constexpr int64_t kMostBytes = 512;
  int64_t level = 1 + dice.roll(3), threshold = dice.oneIn(2) ? 0 : dice.roll(kMostBytes), devices = mesh.numDevices();
  auto isWhole = [](nn::VariableOp variable) { return !variable->hasAttr(dist::kLayoutAttr); };
  bool areWhole = !module->hasAttr(kSplitVariablesAttr) && llvm::all_of(module.getOps<nn::VariableOp>(), isWhole);
  SmallVector<int64_t> sizes = {-1};
  for (int64_t size = 2; areWhole && size <= devices; ++size) {
    if (devices % size == 0) {
      sizes.push_back(size);
    }
  }
  Builder b(module.getContext());
  module->setAttr(kOptimizerParallelAttr, b.getDenseI64ArrayAttr({level, threshold, dice.pick(sizes)}));
  for (auto variable : module.getOps<nn::VariableOp>()) {
    if (variable.getTrainable() && dice.oneIn(4)) {
      variable->setAttr(dist::kOptimizerParallelAttr, b.getBoolAttr(dice.oneIn(2)));
    }
  }
}

// Has one in six of the training programs leave all parameters whole and give them owners, by dice of its own.
void groupWeights(uint64_t seed, ModuleOp module) {
  constexpr uint64_t kOdds = 6;
  Dice dice(seed * 5 + 3);
  if (!nn::findProgram(module, nn::ProgramRole::TrainStep) || !dice.oneIn(kOdds)) {
    return;
  }
  module->removeAttr(kSplitVariablesAttr);
  module->removeAttr(kOptimizerParallelAttr);
  for (auto variable : module.getOps<nn::VariableOp>()) {
    for (StringRef name : {dist::kLayoutAttr, dist::kOpenAttr, dist::kPriorityAttr, dist::kOptimizerParallelAttr}) {
      variable->removeAttr(name);
    }
  }
  module->setAttr(kGroupWeightsAttr, UnitAttr::get(module.getContext()));
}

// Gives two in five programs fusion ids, most of them equal, and two in five modes.
void drawFusion(Dice &dice, ModuleOp module) {
  Builder builder(module.getContext());
  int64_t kind = dice.roll(5);
  for (auto variable : module.getOps<nn::VariableOp>()) {
    if (kind < 2 && variable.getTrainable() && !dice.oneIn(8)) {
      variable->setAttr(dist::kCommFusionAttr, builder.getI64IntegerAttr(dice.oneIn(5) ? dice.roll(3) : 1));
    }
  }
  if (kind == 2 || kind == 3) {
    SmallVector<StringRef> modes;
    for (int i = 0; i < 3; ++i) {
      modes.push_back(dice.pick(std::vector<StringRef>{"", "auto", "size:300", "size:100000", "index:1:3", "index:2", "index:100"}));
    }
    module->setAttr(kCommFusionModesAttr, builder.getStrArrayAttr(modes));
  }
}

// Has the training programs whose ops have paths compute some of their modules and ops again, and a third of them what costs least where
// rules leave it open; all that can be for half of these.
void drawRecompute(uint64_t seed, ModuleOp module) {
  func::FuncOp step = nn::findProgram(module, nn::ProgramRole::TrainStep);
  SmallVector<StringRef> paths = step ? nn::pathsOf(step.front()) : SmallVector<StringRef>();
  Dice dice(seed * 11 + 7);
  Builder b(module.getContext());
  SmallVector<Attribute> rules;
  for (StringRef path : paths) {
    const bool isOp = dice.oneIn(8);
    if (!isOp && !dice.oneIn(3)) {
      continue;
    }
    NamedAttrList values;
    values.append(dist::kRecomputeAttr, b.getBoolAttr(!isOp || dice.oneIn(2)));
    if (dice.oneIn(3)) {
      values.append(dist::kRecomputeCommAttr, b.getBoolAttr(false));
    }
    if (dice.oneIn(3)) {
      values.append(dist::kRecomputeParamGatherAttr, b.getBoolAttr(false));
    }
    const int64_t priority = rules.size(); // so that no two contradict each other
    rules.push_back(dist::SettingAttr::get(module.getContext(), b.getStringAttr(isOp ? path : path.split('.').first),
                                           values.getDictionary(module.getContext()), priority, StringAttr()));
  }
  if (!rules.empty()) {
    module->setAttr(dist::kRecomputeRulesAttr, b.getArrayAttr(rules));
  }
  constexpr uint64_t kOdds = 3;
  if (step && dice.oneIn(kOdds)) {
    if (dice.oneIn(2)) {
      module->removeAttr(dist::kRecomputeRulesAttr);
    }
    module->setAttr(kRecomputeMovesAttr, b.getI64IntegerAttr(dice.oneIn(2) ? INT32_MAX : dice.roll(12)));
  }
}

// Suggests a layout for one op in four of every third program.
void drawSuggestions(uint64_t seed, dist::MeshAttr mesh, ModuleOp module) {
  Dice dice(seed * 17 + 11);
  if (!dice.oneIn(3)) {
    return;
  }
  for (auto function : module.getOps<func::FuncOp>()) {
    function.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (isa<ShardingRuleOpInterface>(op) && dice.oneIn(4)) {
        auto type = cast<RankedTensorType>(op->getResult(0).getType());
        op->setAttr(dist::kSuggestedAttr,
                    dist::LayoutAttr::get(mesh.getContext(), randomLayout(dice, mesh, type.getShape(), /*uneven=*/true)));
      }
    });
  }
}

// Has two in three programs with micro-batches reduce their gradients once a step, or in each.
void drawGradientSync(uint64_t seed, ModuleOp module) {
  Dice dice(seed * 13 + 5);
  auto sync = static_cast<dist::GradientSync>(dice.roll(3));
  if (module->hasAttr(dist::kOrderAttr) && sync != dist::GradientSync::Auto) {
    module->setAttr(dist::kGradientSyncAttr, dist::GradientSyncAttr::get(module.getContext(), sync));
  }
}

} // namespace

RandomModel randomModel(MLIRContext &context, uint64_t seed, const ProgramOptions &options) {
  Dice dice(seed);
  dist::MeshAttr mesh = randomMesh(dice, context);
  return drawModel(dice, mesh, seed, options);
}

OwningOpRef<ModuleOp> randomProgram(MLIRContext &context, uint64_t seed, const ProgramOptions &options) {
  Dice dice(seed);
  dist::MeshAttr mesh = randomMesh(dice, context);
  auto [module, job] = drawModel(dice, mesh, seed, options);
  PassManager passes(&context);
  pipelines::addTrainPasses(passes, job, options.target);
  if (failed(passes.run(*module))) {
    return {};
  }
  OpBuilder builder = OpBuilder::atBlockBegin(module->getBody());
  describeMesh(dice, dist::MeshOp::create(builder, module->getLoc(), "mesh", mesh));
  if (dice.oneIn(2)) {
    (*module)->setAttr(kSplitVariablesAttr, builder.getUnitAttr());
  }
  LayoutGiver(dice, mesh).give(*module);
  drawSuggestions(seed, mesh, *module);
  giveShapePairs(mesh, *module);
  splitOptimizer(dice, mesh, *module);
  drawFusion(dice, *module);
  groupWeights(seed, *module);
  drawRecompute(seed, *module);
  drawGradientSync(seed, *module);
  drawPipeline(seed, *module);
  if (seed % 3 == 0) {
    (*module)->setAttr(kCutsSmallAttr, builder.getUnitAttr());
  }
  return std::move(module);
}

} // namespace ashlar::fuzz
