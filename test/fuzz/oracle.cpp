// SPDX-License-Identifier: Apache-2.0
//
// Before against after; see oracle.h.

#include "test/fuzz/oracle.h"

#include "compiler/pipelines/pipelines.h"
#include "compiler/reference/equivalence.h"
#include "dialects/dist/owners.h"
#include "dialects/dist/recompute_rules.h"
#include "dialects/nn/programs.h"
#include "dialects/nn/repeat.h"
#include "passes/layout/passes.h"
#include "passes/layout/redistribute/decide.h"
#include "passes/layout/redistribute/estimate.h"
#include "test/fuzz/executable.h"
#include "test/fuzz/pipeline_runs.h"
#include "test/fuzz/planted.h"
#include "test/fuzz/random_pipeline.h"
#include "test/fuzz/random_program.h"
#include "test/fuzz/shape_pairs.h"
#include "test/unit/layout/partitioned.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace ashlar::fuzz {

namespace {

// Keeps the first error and lets nothing through to stderr.
class FirstError {
public:
  explicit FirstError(MLIRContext *context)
      : handler(context, [this](Diagnostic &diagnostic) {
          if (text.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error) {
            text = diagnostic.str();
          }
          return success();
        }) {}

  std::string text;

private:
  ScopedDiagnosticHandler handler;
};

// Returns the functions to run, in order.
SmallVector<std::string> programsOf(ModuleOp module) {
  SmallVector<std::string> names;
  for (const char *name : {"init", "forward", "train_step", "train_step", "update", "eval_step"}) {
    if (module.lookupSymbol<func::FuncOp>(name)) {
      names.push_back(name);
    }
  }
  return names;
}

void count(Census *census, StringRef name) {
  if (census) {
    ++(*census)[name.str()];
  }
}

void countOps(ModuleOp module, StringRef dialect, Census *census) {
  module.walk([&](Operation *op) {
    if (op->getName().getDialectNamespace() == dialect) {
      count(census, op->getName().getStringRef());
    }
  });
}

// Counts the ops that only the flat form of repeats has, between layouts and partitioning.
void countFlatRepeats(ModuleOp module, Census *census) {
  module.walk([&](Operation *op) {
    if (isa<nn::RepeatCarryOp, nn::RepeatRowOp, nn::RepeatNextOp, nn::RepeatStackOp>(op)) {
      count(census, op->getName().getStringRef());
    }
  });
}

// Returns the mesh of a module, or of its stages.
dist::MeshAttr meshOf(ModuleOp module) {
  auto stages = module.getOps<ModuleOp>();
  return dist::findMesh(stages.empty() ? module : *stages.begin()).getMesh();
}

// Counts what kinds the program is of, and what became of it. `mesh`: that of its layouts, before redistributions cut it.
void countKinds(ModuleOp program, dist::MeshAttr mesh, ModuleOp after, Census *census) {
  countOps(after, "dist", census);
  bool isFused = false, hasDataHalo = false, hasRepeat = false, sendsInRepeat = false;
  after.walk([&](Operation *op) {
    hasRepeat |= isa<nn::RepeatOp>(op);
    sendsInRepeat |= isa<dist::CollectiveOpInterface>(op) && op->getParentOfType<nn::RepeatOp>();
    isFused |= isa<dist::CollectiveOpInterface>(op) && op->getNumOperands() > 1;
    auto isHalo = [](Operation *other) { return isa_and_nonnull<dist::HaloOp>(other); };
    hasDataHalo |= isa<nn::ConvDataOp>(op) && (isHalo(op->getOperand(0).getDefiningOp()) || llvm::any_of(op->getUsers(), isHalo));
  });
  auto recompute = program->getAttrOfType<ArrayAttr>(dist::kRecomputeRulesAttr);
  const bool isPipeline = pipelineOf(program).has_value();
  const bool isDeep = isPipeline && program->hasAttr(kOptimizerParallelAttr) && recompute && !recompute.empty();
  for (auto [is, name] : {std::pair(isFused, kFusedCensus), std::pair(isPipeline, kPipelineCensus), std::pair(isDeep, kDeepPipelineCensus),
                          std::pair(hasDataHalo, kDataHaloCensus), std::pair(hasShapePair(program), kShapePairCensus),
                          std::pair(hasRepeat, kRepeatCensus), std::pair(hasRepeat && isPipeline, kRepeatPipelineCensus),
                          std::pair(sendsInRepeat, kRepeatCollectiveCensus), std::pair(meshOf(after) != mesh, kCutMeshCensus)}) {
    if (is) {
      count(census, name);
    }
  }
}

// Labels are indices below a small limit, some of them no class.
reference::EquivalenceOptions equivalenceOptions(ModuleOp before, int64_t ranksAfter) {
  reference::EquivalenceOptions options;
  options.functions = programsOf(before);
  options.intLimit = 4;
  options.ranksAfter = ranksAfter;
  return options;
}

// What a program and the one that passes made of it came to, from the same inputs; and how to run the first one again.
struct Runs {
  reference::ModuleRun before, after;
  std::function<FailureOr<reference::ModuleRun>(const reference::Observer &)> rerun;
};

FailureOr<Runs> runBoth(ModuleOp before, ModuleOp after, const reference::EquivalenceOptions &options) {
  FailureOr<std::vector<std::vector<reference::Tensor>>> inputs = reference::randomInputs(before, options);
  if (failed(inputs)) {
    return failure();
  }
  auto rerun = [before, inputs = *inputs, options](const reference::Observer &observer) {
    return reference::runModule(before, /*ranks=*/1, inputs, options, observer);
  };
  FailureOr<reference::ModuleRun> first = rerun({});
  FailureOr<reference::ModuleRun> second = failed(first) ? first : reference::runModule(after, options.ranksAfter, *inputs, options);
  if (failed(second)) {
    return failure();
  }
  return Runs{std::move(*first), std::move(*second), rerun};
}

// Draws what a program with a pipeline is run on: two steps, and a number of batches to evaluate that is no multiple of the stages.
PipelineCase drawCase(ModuleOp program, const pipelines::Stages &pipeline, const reference::EquivalenceOptions &options) {
  constexpr int64_t kSteps = 2; // the second one finds what the first one left in slots and variables
  PipelineCase what;
  what.microBatches = pipeline.microBatches;
  std::mt19937_64 generator(options.seed);
  auto draw = [&](func::FuncOp function) {
    std::vector<reference::Tensor> arguments;
    for (RankedTensorType type : reference::globalArgumentTypes(function)) {
      arguments.push_back(reference::randomTensor(type, generator, options.intLimit));
    }
    return arguments;
  };
  for (int64_t i = 0; i < kSteps * pipeline.microBatches; ++i) {
    what.batches.push_back(draw(nn::findProgram(program, nn::ProgramRole::TrainStep)));
  }
  func::FuncOp evaluation = nn::findProgram(program, nn::ProgramRole::EvalStep);
  for (int64_t i = 0; evaluation && i < pipeline.stages + 1; ++i) {
    what.evaluations.push_back(draw(evaluation));
  }
  reference::Interpreter start(program);
  for (auto variable : program.getOps<nn::VariableOp>()) {
    if (!start.getVariable(variable.getSymName())) {
      what.variables.emplace(variable.getSymName().str(), reference::randomVariable(variable, options));
    }
  }
  what.runsInit = static_cast<bool>(nn::findProgram(program, nn::ProgramRole::Init));
  return what;
}

// The same of a program that was cut into stages.
FailureOr<Runs> runPipeline(ModuleOp before, ModuleOp after, const pipelines::Stages &pipeline,
                            const reference::EquivalenceOptions &options) {
  const PipelineCase what = drawCase(before, pipeline, options);
  auto rerun = [before, what](const reference::Observer &observer) { return runWhole(before, what, observer); };
  FailureOr<reference::ModuleRun> first = rerun({});
  FailureOr<reference::ModuleRun> second = failed(first) ? first : runStages(before, after, options.ranksAfter, what);
  if (failed(second)) {
    return failure();
  }
  return Runs{std::move(*first), std::move(*second), rerun};
}

// Compares the numbers of the two modules from the same inputs; failure when one of them cannot be run.
FailureOr<Comparison> compareRuns(ModuleOp before, ModuleOp after, const reference::EquivalenceOptions &options) {
  std::optional<pipelines::Stages> pipeline = pipelineOf(before);
  FailureOr<Runs> runs = pipeline ? runPipeline(before, after, *pipeline, options) : runBoth(before, after, options);
  if (failed(runs)) {
    return failure();
  }
  auto pairs = reference::pairUp(before, runs->before, runs->after);
  if (failed(pairs)) {
    return failure();
  }
  std::vector<ComparedTensor> tensors;
  for (auto [expected, computed] : *pairs) {
    tensors.push_back({expected->name, &expected->value, computed});
  }
  auto rerun = [&](const reference::Observer &observer) -> FailureOr<std::vector<reference::Tensor>> {
    FailureOr<reference::ModuleRun> moved = runs->rerun(observer);
    if (failed(moved)) {
      return failure();
    }
    auto movedPairs = reference::pairUp(before, *moved, runs->after);
    std::vector<reference::Tensor> values;
    for (size_t i = 0; succeeded(movedPairs) && i < movedPairs->size(); ++i) {
      values.push_back((*movedPairs)[i].first->value);
    }
    return values;
  };
  return compareRounded(tensors, tolerancesOf(precisionOf(before)), rerun);
}

// Whether one rank can run a program.
bool runsAlone(ModuleOp program) {
  reference::EquivalenceOptions options = equivalenceOptions(program, /*ranksAfter=*/1);
  if (std::optional<pipelines::Stages> pipeline = pipelineOf(program)) {
    return succeeded(runWhole(program, drawCase(program, *pipeline, options)));
  }
  return succeeded(reference::compareModules(program, program, options));
}

// Returns the difference between the two modules as a verdict. An error is the program's own fault when even one rank cannot run it.
Verdict compare(ModuleOp before, ModuleOp after, int64_t ranks, FirstError &error) {
  constexpr uint64_t kInputs = 3;
  Verdict verdict;
  for (uint64_t seed = 1; seed <= kInputs; ++seed) {
    reference::EquivalenceOptions options = equivalenceOptions(before, ranks);
    options.seed = seed;
    FailureOr<Comparison> comparison = compareRuns(before, after, options);
    if (failed(comparison)) {
      std::string message = error.text;
      return {runsAlone(before) ? FailureKind::Run : FailureKind::Program, message};
    }
    verdict = {FailureKind::None, "", comparison->difference, comparison->elements, comparison->undecided, precisionOf(before)};
    verdict.further = comparison->further;
    if (!comparison->fault.empty()) {
      verdict.kind = FailureKind::Difference;
      verdict.message = comparison->fault;
      return verdict;
    }
    if (verdict.undecided <= kMaxUndecided * verdict.elements) {
      return verdict;
    }
  }
  verdict.kind = FailureKind::Undecided;
  verdict.message = llvm::formatv("rounding decides {0} of {1} elements", verdict.undecided, verdict.elements);
  return verdict;
}

// Adds the passes up to the last layout for a program with a mesh, and says on it what its links and devices cost.
pipelines::Variant addLayoutPasses(OpPassManager &passes, ModuleOp program) {
  pipelines::Variant variant = test::variantOf(program, program->hasAttr(kSplitVariablesAttr));
  if (auto modes = program->getAttrOfType<ArrayAttr>(kCommFusionModesAttr)) {
    auto mode = [&](unsigned i) { return *partition::FusionSetting::parse(cast<StringAttr>(modes[i]).getValue()); };
    variant.commFusion = {mode(0), mode(1), mode(2)};
  }
  variant.shardsSequences = variant.inferParameters;
  job::Job job;
  if (program->hasAttr(kHostsApartAttr)) {
    job.mutable_machine()->set_ranks_per_host(static_cast<int32_t>(dist::findMesh(program).getMesh().numDevices()));
    job.mutable_machine()->mutable_inter_host()->set_bandwidth_gb_per_s(1e-6);
  }
  pipelines::attachMachine(program, variant, job);
  pipelines::addLayoutPasses(passes, variant, job::Job());
  if (auto split = program->getAttrOfType<DenseI64ArrayAttr>(kOptimizerParallelAttr)) {
    variant.optimizerParallel = pipelines::OptimizerParallel{split[0], split[1], split[2]};
    pipelines::addOptimizerParallelPasses(passes, variant);
  }
  if (auto moves = program->getAttrOfType<IntegerAttr>(kRecomputeMovesAttr)) {
    variant.recomputeMoves = moves.getInt();
  }
  if (program->hasAttr(kGroupWeightsAttr)) {
    variant.groupWeights = true;
    variant.devicesPerProcess = dist::findMesh(program).getMesh().numDevices(); // so that any number of parameters will do
  }
  variant.cutsSmall = program->hasAttr(kCutsSmallAttr);
  variant.pipeline = pipelineOf(program);
  return variant;
}

// Takes the fusion ids off the parameters. Returns whether there were any.
bool dropFusionIds(ModuleOp program) {
  bool hadIds = false;
  for (auto variable : program.getOps<nn::VariableOp>()) {
    hadIds |= static_cast<bool>(variable->removeAttr(dist::kCommFusionAttr));
  }
  return hadIds;
}

// Whether passes were right to say that a program cannot be cut into so many stages.
bool isTooSmall(StringRef error) {
  return error.contains("ops that can be cut, too few for") || error.contains("rules leave no op for");
}

// Returns how often a collective runs, by its estimate: at least once, also in a body that never runs.
int64_t countRuns(Operation *op) {
  int64_t runs = 1;
  for (auto repeat = op->getParentOfType<nn::RepeatOp>(); repeat; repeat = repeat->getParentOfType<nn::RepeatOp>()) {
    runs *= std::max<int64_t>(1, static_cast<int64_t>(repeat.getCount()));
  }
  return runs;
}

// Estimates the layouts of a module once the parts of its dims are in their order.
FailureOr<layout::Estimate> estimateOrdered(ModuleOp module) {
  OwningOpRef<ModuleOp> ordered = module.clone();
  PassManager passes(module.getContext());
  passes.addPass(layout::createInterleavePartsPass());
  return failed(passes.run(*ordered)) ? FailureOr<layout::Estimate>(failure()) : layout::estimateLayouts(*ordered);
}

// Compares what the programs send by their estimate with what they send once they are partitioned; returns what differs. Blocks of a
// computation send what the whole would, but each of their messages is rounded to bytes by itself.
std::string compareEstimate(ModuleOp partitioned, const layout::Estimate &estimate) {
  for (auto [function, estimated] : llvm::zip_equal(partitioned.getOps<func::FuncOp>(), estimate.programs)) {
    int64_t sent = 0, messages = 0;
    function.walk([&](dist::CollectiveOpInterface op) {
      const int64_t runs = countRuns(op);
      sent += dist::getOwner(op) ? 0 : dist::collectiveBytes(op) * runs; // no layout sends those
      messages += runs;
    });
    const int64_t rounded = partitioned->hasAttr(kCutsSmallAttr) ? messages : 0;
    if (std::abs(sent - estimated.bytesSent) > rounded) {
      return llvm::formatv("@{0} sends {1} bytes, its estimate has {2}", function.getName(), sent, estimated.bytesSent);
    }
  }
  return "";
}

} // namespace

StringRef nameOf(FailureKind kind) {
  constexpr StringLiteral kNames[] = {"none",  "program",    "passes",    "estimate", "run",    "difference",
                                      "lower", "executable", "undecided", "crash",    "timeout"};
  return kNames[static_cast<size_t>(kind)];
}

std::string Verdict::signature() const {
  std::string text = nameOf(kind).str() + ": ";
  if (kind == FailureKind::Difference || kind == FailureKind::Undecided) {
    return text;
  }
  bool quoted = false;
  for (char c : StringRef(message).take_until([](char c) { return c == '\n'; })) {
    quoted ^= c == '"' || c == '\'';
    if (!quoted && (isalpha(c) || c == ' ')) {
      text += c;
    }
  }
  return text.substr(0, 80);
}

void addDistPasses(OpPassManager &passes, ModuleOp program) {
  pipelines::addDistPasses(passes, addLayoutPasses(passes, program));
}

Verdict checkProgram(ModuleOp program, const CheckOptions &options) {
  FirstError error(program.getContext());
  dist::MeshOp mesh = dist::findMesh(program);
  if (!mesh || failed(verify(program))) {
    return {FailureKind::Program, mesh ? error.text : "no dist.mesh"};
  }
  if (programsOf(program).empty()) {
    return {FailureKind::Program, "no function to run: neither @forward nor @init, @train_step or @eval_step"};
  }
  countOps(program, "nn", options.census);
  OwningOpRef<ModuleOp> after = program.clone();
  PassManager layout(program.getContext()), dist(program.getContext());
  std::optional<layout::Estimate> estimate;
  if (options.addPasses) {
    options.addPasses(dist, *after);
  } else {
    pipelines::addDistPasses(dist, addLayoutPasses(layout, *after));
    FailureOr<layout::Estimate> estimated = failure();
    if (failed(layout.run(*after)) || failed(estimated = estimateOrdered(*after))) {
      return {FailureKind::Passes, error.text};
    }
    countFlatRepeats(*after, options.census);
    const bool repeats = (*after)->hasAttr(dist::kRecomputeRulesAttr) || (*after)->hasAttr(kRecomputeMovesAttr);
    estimate = repeats || pipelineOf(program) ? std::nullopt : std::optional(std::move(*estimated)); // of what is neither repeated nor cut
  }
  const dist::MeshAttr meshOfLayouts = meshOf(*after);
  if (failed(dist.run(*after))) {
    OwningOpRef<ModuleOp> other = program.clone();
    if (pipelineOf(program) && isTooSmall(error.text)) {
      count(options.census, kRefusedPipelineCensus);
      dropPipeline(*other);
      return checkProgram(*other, options);
    }
    bool isCycle = StringRef(error.text).contains("give the two parameters different ids"); // as random ids may ask for
    return isCycle && dropFusionIds(*other) ? checkProgram(*other, options) : Verdict{FailureKind::Passes, error.text};
  }
  if (std::string fault = estimate ? compareEstimate(*after, *estimate) : ""; !fault.empty()) {
    return {FailureKind::Estimate, fault};
  }
  countKinds(program, meshOfLayouts, *after, options.census);
  std::optional<pipelines::Stages> pipeline = pipelineOf(program);
  const int64_t devices = mesh.getMesh().numDevices();
  Verdict verdict = compare(program, *after, devices, error);
  for (auto [elements, name] : {std::pair(verdict.undecided, kUndecidedCensus), std::pair(verdict.further, kFurtherCensus)}) {
    if (elements > 0) {
      count(options.census, name);
    }
  }
  if (!verdict.ok() || !(options.lower || options.executable)) {
    return verdict;
  }
  PassManager lower(program.getContext());
  pipelines::Variant variant;
  variant.name = "default";
  variant.target = options.target;
  variant.pipeline = pipeline;
  pipelines::addLowerPasses(lower, variant);
  if (failed(lower.run(*after))) {
    return {FailureKind::Lower, error.text};
  }
  if (pipeline) {
    after = pipelines::mergeStages(std::move(after));
  }
  if (options.executable && (!pipeline || pipeline->stages * devices <= kMostPipelineRanks)) {
    for (const std::string &fault : options.census ? shownSignFaults(program) : std::set<std::string>()) {
      count(options.census, kShownCensus + fault);
    }
    if (std::string fault = checkExecutable(program, *after, options.target, options.packFolder); !fault.empty()) {
      return {FailureKind::Executable, fault};
    }
  }
  return verdict;
}

} // namespace ashlar::fuzz
