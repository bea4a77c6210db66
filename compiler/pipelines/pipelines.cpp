// SPDX-License-Identifier: Apache-2.0
//
// The pass lists. A verify pass closes each room, so that a mistake is reported where it was made.

#include "compiler/pipelines/pipelines.h"

#include "compiler/cost/machine.h"
#include "compiler/job/job.h"
#include "compiler/pipelines/optimizer_options.h"
#include "compiler/pipelines/plugin_passes.h"
#include "compiler/strategy/strategy.h"
#include "dialects/dist/recompute_rules.h"
#include "dialects/dist/rules.h"
#include "dialects/dist/stages.h"
#include "dialects/exec/target_traits.h"
#include "dialects/nn/nn.h"
#include "dialects/nn/paths.h"
#include "dialects/nn/programs.h"
#include "passes/decode/passes.h"
#include "passes/format/passes.h"
#include "passes/layout/passes.h"
#include "passes/lower/passes.h"
#include "passes/partition/passes.h"
#include "passes/stage/passes.h"
#include "passes/train/passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace ashlar::pipelines {
namespace {

train::LossPassOptions lossOptions(const job::Job &job) {
  train::LossPassOptions options;
  options.output = job::lossName(job);
  options.labels = job::labelsName(job);
  switch (job.loss().kind_case()) {
  case job::Loss::kMeanSquaredError:
    options.kind = train::LossKind::MeanSquaredError;
    break;
  case job::Loss::kNegativeLogLikelihood:
    options.kind = train::LossKind::NegativeLogLikelihood;
    break;
  case job::Loss::kModelOutput:
    options.kind = train::LossKind::ModelOutput;
    break;
  default:
    options.kind = train::LossKind::SoftmaxCrossEntropy;
    break;
  }
  options.ignoreIndex = job::ignoredLabel(job).value_or(options.ignoreIndex);
  options.microBatches = job::microBatches(job);
  options.meanOfMicroBatches = job::takesMeanOfMicroBatches(job);
  return options;
}

// Adds the conversions for the job's precision before the loss.
void addPrecisionPass(OpPassManager &passes, const job::Job &job) {
  if (job.precision() == job::F32) {
    return;
  }
  train::MixedPrecisionPassOptions options;
  options.narrowType = job.precision() == job::BF16_MIXED ? train::NarrowType::BF16 : train::NarrowType::F16;
  options.narrowTables = job.has_optimizer_parallel() && job.mode() != job::DATA_PARALLEL; // master copies are sharded
  passes.addPass(train::createMixedPrecisionPass(options));
}

// Adds the attention ops where the target has kernels of them, or loses nothing without one. What the job names stays in the program.
void addAttentionPass(OpPassManager &passes, const job::Job &job, exec::Target target) {
  train::RecognizeAttentionPassOptions options;
  options.target = target;
  options.trains = job.has_loss();
  options.onlyWhole = !exec::traitsOf(target).attention.expandsWell;
  for (const job::Rule &rule : job.rules()) {
    options.rules.push_back(rule.match());
    if (rule.in_size() + rule.out_size() > 0) {
      options.countedRules.push_back(rule.match());
    }
  }
  options.rules.push_back(job::lossName(job));
  passes.addPass(train::createRecognizeAttentionPass(options));
}

// Makes the programs of text generation.
void addDecodePass(OpPassManager &passes, const job::Generate &generate) {
  passes.addPass(decode::createDecodePass({generate.logits(), generate.chunk()}));
}

// Adds the gradients, with a scaled loss for a type with a small range, and the update.
void addUpdatePasses(OpPassManager &passes, const job::Job &job) {
  train::AutodiffPassOptions autodiff;
  bool scaled = job.precision() == job::F16_MIXED;
  autodiff.lossScale = scaled ? job.loss_scale().initial() : 0;
  autodiff.spreadsNonfinite = job.on_nonfinite() == job::Nonfinite::SKIP;
  passes.addPass(train::createSegmentRepeatsPass());
  passes.addPass(train::createAutodiffPass(autodiff)); // before CSE, which would merge ops whose gradients have different causes
  passes.addNestedPass<func::FuncOp>(train::createSumBehindRepeatsPass());
  passes.addPass(train::createOptimizerPass(optimizerOptions(job.optimizer())));
  // Passes that change all gradients come after the optimizer's update, which uses them: first their norm is bounded, then the scale is
  // removed from both, so that the norm covers unscaled gradients.
  if (job.optimizer().has_clip_global_norm()) {
    train::ClipGradientsPassOptions clip;
    clip.maxNorm = job.optimizer().clip_global_norm();
    passes.addPass(train::createClipGradientsPass(clip));
  }
  if (job.on_nonfinite() != job::Nonfinite::CONTINUE) { // when there is a norm, before the scale
    train::WatchNonfinitePassOptions watch;
    watch.skips = job.on_nonfinite() == job::Nonfinite::SKIP;
    passes.addPass(train::createWatchNonfinitePass(watch));
  }
  if (scaled) {
    train::LossScalePassOptions scale;
    scale.growthSteps = job.loss_scale().growth_steps();
    scale.factor = job.loss_scale().factor();
    passes.addPass(train::createLossScalePass(scale));
  }
  if (job::microBatches(job) > 1) { // last: it moves the update as it is
    train::AccumulatePassOptions accumulate;
    accumulate.count = job::microBatches(job);
    accumulate.samples = std::max<int64_t>(job::programBatch(job), 1);
    passes.addPass(train::createAccumulatePass(accumulate));
    passes.addPass(train::createPrepareStepPass());
  }
}

// Whether a rule has a layout.
bool givesLayouts(const job::Rule &rule) {
  return rule.has_layout() || rule.in_size() + rule.out_size() > 0;
}

StringAttr originOf(const job::Rule &rule, Builder &builder) {
  return rule.origin().empty() ? StringAttr() : builder.getStringAttr(rule.origin());
}

// Returns the attributes that a rule gives to parameters.
DictionaryAttr settingsOf(const job::Rule &rule, Builder &builder) {
  NamedAttrList values;
  if (rule.has_weight_decay()) {
    values.append(nn::kWeightDecayAttr, builder.getF64FloatAttr(rule.weight_decay()));
  }
  if (rule.has_comm_fusion()) {
    values.append(dist::kCommFusionAttr, builder.getI64IntegerAttr(rule.comm_fusion()));
  }
  if (rule.has_optimizer_parallel()) {
    values.append(dist::kOptimizerParallelAttr, builder.getBoolAttr(rule.optimizer_parallel()));
  }
  return values.getDictionary(builder.getContext());
}

// Returns the stage that a rule gives to ops.
DictionaryAttr stageOf(const job::Rule &rule, Builder &builder) {
  NamedAttrList values;
  if (rule.has_pipeline_stage()) {
    values.append(dist::kStageAttr, builder.getI64IntegerAttr(rule.pipeline_stage()));
  }
  return values.getDictionary(builder.getContext());
}

// Returns a rule's settings of rematerialization.
DictionaryAttr recomputeOf(const job::Rule &rule, Builder &builder) {
  NamedAttrList values;
  if (rule.has_recompute()) {
    values.append(dist::kRecomputeAttr, builder.getBoolAttr(rule.recompute()));
  }
  if (rule.has_recompute_comm()) {
    values.append(dist::kRecomputeCommAttr, builder.getBoolAttr(rule.recompute_comm()));
  }
  if (rule.has_recompute_param_gather()) {
    values.append(dist::kRecomputeParamGatherAttr, builder.getBoolAttr(rule.recompute_param_gather()));
  }
  return values.getDictionary(builder.getContext());
}

// Attaches the results of `valuesOf` on the rules, as settings.
void attach(ModuleOp module, StringRef name, const job::Job &job, function_ref<DictionaryAttr(const job::Rule &, Builder &)> valuesOf) {
  module.getContext()->loadDialect<dist::DistDialect>();
  Builder builder(module.getContext());
  SmallVector<Attribute> settings;
  for (const job::Rule &rule : job.rules()) {
    if (DictionaryAttr values = valuesOf(rule, builder); !values.empty()) {
      settings.push_back(dist::SettingAttr::get(module.getContext(), builder.getStringAttr(rule.match()), values, rule.priority(),
                                                originOf(rule, builder)));
    }
  }
  if (!settings.empty()) {
    module->setAttr(name, builder.getArrayAttr(settings));
  }
}

// Returns where passes run on whole programs: on the module, or on each stage's module.
OpPassManager &programsOf(OpPassManager &passes, const Variant &variant) {
  return variant.pipeline ? passes.nest<ModuleOp>() : passes;
}

// Checks, while all ops of the model exist, that each rule about stages matches one. Stages are assigned after partitioning, which merges
// equal ops of two modules.
LogicalResult checkStageRules(ModuleOp module, ArrayRef<StringRef> paths) {
  NameTable names;
  llvm::for_each(paths, [&](StringRef path) { names.add(NameKind::Op, path); });
  return dist::emitIfError(module.getContext(), dist::readStageRules(module).checkMatches(names));
}

} // namespace

void addTrainPasses(OpPassManager &passes, const job::Job &job, exec::Target target, bool joinsAttention) {
  runPassAdders(PassPoint::Model, passes);
  addPrecisionPass(passes, job); // before the loss, which then has f32 results
  if (joinsAttention) {
    addAttentionPass(passes, job, target); // when the types of its operands are known, before the gradients
  }
  passes.addPass(train::createApplySettingsPass());
  if (job.has_loss()) {
    passes.addPass(train::createLossPass(lossOptions(job)));
  }
  train::BatchNormPassOptions batchNorm;
  batchNorm.replicas = job.batch_norm() == job::BatchNorm::PER_REPLICA ? job::batchReplicas(job) : 1;
  passes.addPass(train::createBatchNormPass(batchNorm)); // when the trained parameters are known, before the gradients
  if (job.has_loss()) {
    addUpdatePasses(passes, job);
  }
  if (job::generatesText(job)) {
    addDecodePass(passes, job.generate()); // on attentions as ops, in their precision
  }
  passes.addPass(train::createInitPass()); // after these, whose variables it fills too
  passes.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  passes.addNestedPass<func::FuncOp>(createCSEPass());
  runPassAdders(PassPoint::Step, passes);
  passes.addPass(train::createVerifyTrainPass());
}

void addHybridPasses(OpPassManager &passes) {
  passes.addNestedPass<func::FuncOp>(train::createUnrollRepeatsPass()); // layouts do not know bodies
  // First, while all ops are alike: afterwards folding would have to keep layouts.
  passes.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  passes.addPass(layout::createApplyRulesPass());
  passes.addPass(layout::createLiftHybridPass());
}

void attachSettings(ModuleOp module, const job::Job &job) {
  if (job.has_gradient_sync() && job::microBatches(job) == 1) {
    emitRemark(UnknownLoc::get(module.getContext()),
               "gradient_sync is about the micro-batches of a step, and this one has one; add accumulate or a pipeline");
  }
  if (job.has_sequence_parallel() && !job::infersSequences(job)) {
    emitRemark(
        UnknownLoc::get(module.getContext()),
        "sequence_parallel is about training with layouts that follow from rules, in mode SEMI_AUTO or in mode AUTO without a search; "
        "this job has none");
  } else if (job.has_sequence_parallel() && job.sequence_parallel() == job::SequenceParallel::AUTO && job::keepsCollectives(job)) {
    emitRemark(
        UnknownLoc::get(module.getContext()),
        "sequence_parallel: AUTO shards no sequences beside a rule with recompute_comm: false: the gathers between its products would be "
        "kept for the backward pass whole; leave out one of the two");
  }
  if (job.gradient_sync() != job::GradientSync::AUTO) {
    module.getContext()->loadDialect<dist::DistDialect>();
    auto sync = job.gradient_sync() == job::GradientSync::STEP ? dist::GradientSync::Step : dist::GradientSync::MicroBatch;
    module->setAttr(dist::kGradientSyncAttr, dist::GradientSyncAttr::get(module.getContext(), sync));
  }
  if (job.gradient_reduce_precision() == job::GradientReduce::BF16) {
    module->setAttr(dist::kGradientTypeAttr, TypeAttr::get(BFloat16Type::get(module.getContext())));
  }
  attach(module, dist::kSettingsAttr, job, settingsOf);
  attach(module, dist::kRecomputeRulesAttr, job, recomputeOf);
}

LogicalResult attachOpRules(ModuleOp module, const job::Job &job) {
  if (job.has_pipeline()) {
    attach(module, dist::kStageRulesAttr, job, stageOf);
  }
  func::FuncOp step = nn::findProgram(module, nn::ProgramRole::TrainStep);
  if (!step) {
    return success();
  }
  SmallVector<StringRef> paths = nn::pathsOf(step.front());
  return failed(checkStageRules(module, paths)) ? failure() : dist::RecomputeRules(module).check(paths);
}

void attachRules(ModuleOp module, const job::Job &job) {
  if (llvm::none_of(job.rules(), givesLayouts)) {
    return;
  }
  module.getContext()->loadDialect<dist::DistDialect>();
  Builder builder(module.getContext());
  auto counts = [&](const auto &tuples) {
    SmallVector<Attribute> arrays;
    for (const job::Rule::SliceCounts &tuple : tuples) {
      arrays.push_back(builder.getDenseI64ArrayAttr(SmallVector<int64_t>(tuple.slices().begin(), tuple.slices().end())));
    }
    return arrays.empty() ? ArrayAttr() : builder.getArrayAttr(arrays);
  };
  auto fromModel = module->getAttrOfType<ArrayAttr>(dist::kRulesAttr);
  SmallVector<Attribute> rules = fromModel ? llvm::to_vector(fromModel) : SmallVector<Attribute>();
  for (const job::Rule &rule : llvm::make_filter_range(job.rules(), givesLayouts)) {
    StringAttr layout = rule.has_layout() ? builder.getStringAttr(rule.layout()) : StringAttr(); // an empty one is for the parser to refuse
    rules.push_back(dist::RuleAttr::get(module.getContext(), builder.getStringAttr(rule.match()), layout, counts(rule.in()),
                                        counts(rule.out()), rule.priority(), originOf(rule, builder)));
  }
  module->setAttr(dist::kRulesAttr, builder.getArrayAttr(rules));
}

void attachMachine(ModuleOp module, const Variant &variant, const job::Job &job) {
  MLIRContext *context = module.getContext();
  context->loadDialect<dist::DistDialect>();
  cost::Machine machine = cost::machineOf(job, variant.target);
  module->setAttr(dist::kDeviceAttr, analysis::deviceOf(context, machine.device));
  if (variant.mesh.empty()) {
    return;
  }
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  for (const Axis &axis : variant.mesh) {
    names.push_back(StringAttr::get(context, axis.name));
    sizes.push_back(axis.size);
  }
  auto mesh = dist::MeshAttr::get(context, names, sizes);
  dist::MeshOp op = dist::findMesh(module);
  if (!op) {
    OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
    op = dist::MeshOp::create(builder, module.getLoc(), nn::freeSymbol(module, "mesh"), mesh);
  }
  assert(op.getMesh() == mesh && "the module is for another mesh");
  if (!variant.deviceIds.empty()) {
    op.setDeviceIds(variant.deviceIds);
  }
  dist::HostsAttr hosts = cost::hostsOf(context, machine, variant.devicesPerProcess);
  op.setHostsAttr(hosts);
  op.setCostsAttr(analysis::costsOf(context, analysis::hostLinks(hosts, sizes, variant.deviceIds)));
}

void addLayoutPasses(OpPassManager &passes, const Variant &variant, const job::Job &job) {
  if (variant.mesh.empty()) {
    return;
  }
  passes.addNestedPass<func::FuncOp>(layout::createFlattenRepeatsPass()); // up to ashlar-nest-repeats
  layout::SeedLayoutsPassOptions seed;
  llvm::append_range(seed.batchAxes, variant.batchAxes);
  seed.globalBatch = job::programBatch(job);
  passes.addPass(layout::createSeedLayoutsPass(seed));
  passes.addPass(layout::createMoveReshapedRowsPass()); // before sharding rules are asked for
  // A strategy holds the result of rules.
  passes.addPass(variant.usesStrategy ? strategy::createApplyStrategyPass(job.strategy()) : layout::createApplyRulesPass());
  if (variant.search) {
    search::SearchLayoutsPassOptions search;
    search.method = variant.search->method;
    search.memoryLimit = variant.search->memoryLimit;
    search.takesSmallest = variant.search->takesSmallest;
    search.units = search::Effort::unitsOf(variant.search->effort);
    search.seconds = variant.search->seconds;
    search.stages = variant.pipeline ? variant.pipeline->stages : 1;
    search.batch = job::programBatch(job);
    search.smallState = variant.optimizerParallel ? -1 : search.smallState; // which splits state by itself
    passes.addPass(search::createSearchLayoutsPass(search, variant.search->costOfLowered));
  }
  addInferencePasses(passes, variant);
}

void addInferencePasses(OpPassManager &passes, const Variant &variant) {
  if (variant.shardsSequences) {
    passes.addPass(search::createShardSequencesPass());
    return;
  }
  layout::PropagateLayoutsPassOptions propagate;
  propagate.splitVariables = variant.inferParameters;
  passes.addPass(layout::createPropagateLayoutsPass(propagate));
}

LogicalResult inferLayouts(ModuleOp programs, const Variant &variant, const job::Job &job, bool verifies) {
  if (job::effectiveMode(job) != job::HYBRID && !variant.usesStrategy) {
    attachRules(programs, job);
  }
  attachMachine(programs, variant, job);
  PassManager passes(programs.getContext());
  passes.enableVerifier(verifies);
  addLayoutPasses(passes, variant, job);
  return failed(attachOpRules(programs, job)) ? failure() : passes.run(programs);
}

void addDistPasses(OpPassManager &model, const Variant &variant, bool verifies) {
  if (!variant.mesh.empty()) {
    addRedistributionPasses(model, variant);
    if (verifies) {
      model.addPass(layout::createVerifyLayoutsPass());
    }
    model.addPass(partition::createPartitionPass());
    model.addNestedPass<func::FuncOp>(partition::createNestRepeatsPass()); // its collectives stand in the bodies then
    model.addNestedPass<func::FuncOp>(createCanonicalizerPass());          // offsets of indices fold
    model.addPass(partition::createSimplifyCollectivesPass());             // after it, when equal operands are one value
  }
  format::AssignFormatsPassOptions formats;
  formats.target = variant.target;
  model.addPass(format::createAssignFormatsPass(formats)); // before the cut, so that stages pass values in their readers' format
  if (variant.pipeline) {
    stage::AssignStagesPassOptions assign;
    assign.stages = variant.pipeline->stages;
    assign.chunks = variant.pipeline->chunks;
    model.addPass(stage::createAssignStagesPass(assign)); // values between stages are kept, not rematerialized
    stage::ShardMessagesPassOptions messages;
    messages.stages = variant.pipeline->stages;
    messages.chunks = variant.pipeline->chunks;
    model.addPass(stage::createShardMessagesPass(messages));
  }
  partition::RecomputePassOptions recompute;
  recompute.moves = variant.recomputeMoves;
  model.addPass(partition::createRecomputePass(recompute)); // after all collectives, before the cut: a copy has its op's stage
  if (variant.pipeline) {
    stage::CutStagesPassOptions cut;
    cut.stages = variant.pipeline->stages;
    cut.microBatches = variant.pipeline->microBatches;
    cut.schedule = variant.pipeline->schedule;
    cut.chunks = variant.pipeline->chunks;
    cut.orderFile = variant.pipeline->orderFile;
    model.addPass(stage::createCutStagesPass(cut)); // before collectives of parameters of several stages become one
  }
  partition::ComputeInBlocksPassOptions blocks;
  if (variant.cutsSmall) {
    blocks.leastBytes = blocks.leastRows = 1;
    blocks.timeShare = 1'000'000;
  }
  programsOf(model, variant)
      .addNestedPass<func::FuncOp>(partition::createComputeInBlocksPass(blocks)); // when no op will be copied any more
  if (variant.mesh.empty()) {
    return;
  }
  OpPassManager &passes = programsOf(model, variant);
  if (variant.overlaps) {
    passes.addPass(stage::createJoinRunsPass()); // before what follows looks at whole programs
  }
  partition::FuseCollectivesPassOptions fuse;
  fuse.allReduce = variant.commFusion.allReduce;
  fuse.allGather = variant.commFusion.allGather;
  fuse.reduceScatter = variant.commFusion.reduceScatter;
  passes.addPass(partition::createFuseCollectivesPass(fuse)); // after that, when no collective is left out any more
  if (variant.groupWeights) {
    partition::GroupWeightsPassOptions group;
    group.devicesPerProcess = variant.devicesPerProcess;
    passes.addPass(partition::createGroupWeightsPass(group)); // last: the program shows which ops an owner can do alone
  }
  if (verifies) {
    passes.addPass(partition::createVerifyPartitionedPass());
    if (variant.pipeline) {
      model.addPass(stage::createVerifyStagesPass());
    }
  }
}

void addFusionPasses(OpPassManager &model, const Variant &variant, std::optional<int64_t> leastLibraryFlops) {
  OpPassManager &passes = programsOf(model, variant);
  runPassAdders(PassPoint::Device, passes);
  passes.addPass(lower::createSelectResultsPass({variant.target}));
  OpPassManager &functions = passes.nest<func::FuncOp>();
  lower::ExpandOpsPassOptions expand;
  expand.target = variant.target;
  expand.gemmFlops = leastLibraryFlops.value_or(expand.gemmFlops);
  functions.addPass(lower::createExpandOpsPass(expand));
  functions.addPass(createCanonicalizerPass());
  functions.addPass(createCSEPass()); // softmax of the forward pass and of its gradient share their terms
  functions.addPass(lower::createOrderOpsPass());
  lower::FusePassOptions fuse;
  fuse.target = variant.target;
  functions.addPass(lower::createFusePass(fuse));
  if (variant.overlaps) {
    lower::OverlapCollectivesPassOptions overlap;
    overlap.target = variant.target;
    passes.addPass(lower::createOverlapCollectivesPass(overlap)); // when fusions are known
  }
  passes.addPass(lower::createEstimateProgramsPass({variant.target})); // in their last order
}

void addLowerPasses(OpPassManager &model, const Variant &variant, int64_t memoryLimit, bool verifies) {
  addFusionPasses(model, variant);
  OpPassManager &passes = programsOf(model, variant);
  lower::PlanMemoryPassOptions plan;
  plan.target = variant.target;
  plan.memoryLimit = memoryLimit;
  plan.ranksPerHost = variant.ranksPerHost;
  plan.allowTf32 = variant.allowTf32;
  plan.variantName = variant.name;
  plan.devicesPerProcess = variant.devicesPerProcess;
  passes.addPass(lower::createPlanMemoryPass(plan));
  if (verifies) {
    passes.addPass(lower::createVerifyExecPass({variant.target}));
  }
}

} // namespace ashlar::pipelines
