// SPDX-License-Identifier: Apache-2.0
//
// The stages of a compilation, one function each, in order, from the input of input.h.

#include "compiler/driver/compile.h"

#include "compiler/command/code.h"
#include "compiler/command/diagnostics.h"
#include "compiler/command/input.h"
#include "compiler/driver/class_labels.h"
#include "compiler/driver/inspection.h"
#include "compiler/driver/planned_tensors.h"
#include "compiler/driver/report_files.h"
#include "compiler/driver/saved_layouts.h"
#include "compiler/driver/training_info.h"
#include "compiler/driver/trial_plans.h"
#include "compiler/file/output_file.h"
#include "compiler/frontend/import.h"
#include "compiler/frontend/weights/export_template.h"
#include "compiler/frontend/weights/init_rules.h"
#include "compiler/pipelines/local_model.h"
#include "compiler/pipelines/pipelines.h"
#include "compiler/planning/forecast.h"
#include "compiler/planning/mesh_search.h"
#include "compiler/planning/planned_stages.h"
#include "compiler/report/optimizer_text.h"
#include "compiler/report/plan_text.h"
#include "compiler/report/timeline_svg.h"
#include "compiler/report/units.h"
#include "compiler/strategy/strategy.h"
#include "dialects/dist/dist.h"
#include "dialects/dist/recompute_rules.h"
#include "dialects/exec/target_traits.h"
#include "dialects/nn/nn.h"
#include "dialects/nn/programs.h"
#include "dialects/support/byte_text.h"
#include "dialects/support/element_type.h"
#include "passes/decode/passes.h"
#include "passes/lower/memory/collective_order.h"
#include "passes/lower/memory/constant_pool.h"
#include "passes/lower/memory/memory_use.h"
#include "passes/search/explain_strategy.h"
#include "passes/stage/stage_modules.h"
#include "runtime/abi/ashlar_rt.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

#include <map>

using namespace mlir;
using ashlar::file::writeOutput;

namespace ashlar::driver {
namespace {

class Compilation {
public:
  // `meshes`: the candidates of a search for the mesh of the input's job; null: it was not searched.
  Compilation(const command::Options &options, command::Input input, const planning::FoundMeshes *meshes)
      : options(options), meshes(meshes), context(MLIRContext::Threading::DISABLED), printer(&context), files(std::move(input.files)),
        target(std::move(input.target)), memoryLimit(input.memoryLimit), job(std::move(input.job)), trials(job, memoryLimit) {
    context.printOpOnDiagnostic(false);
  }

  LogicalResult run() {
    if (failed(import()) || failed(train())) {
      return failure();
    }
    if (options.printParameters) {
      printParameters();
    }
    if (options.emit == command::Emit::Nn && !options.output.empty() && failed(writeModule(*module))) {
      return failure();
    }
    if (options.emit == command::Emit::Nn || options.output.empty()) {
      return asksForLayouts() ? lower() : success();
    }
    if (failed(lower())) {
      return failure();
    }
    if (options.emit == command::Emit::Dist) {
      return success(); // lower() wrote it on its way
    }
    return options.emit == command::Emit::Exec ? writeModule(*module) : generate();
  }

private:
  // Whether something is to be written that is known as soon as the layouts are.
  bool asksForLayouts() const {
    return asksForReport(options) || !options.saveStrategy.empty() || !options.saveOrder.empty() || !options.annotated.empty() ||
           !options.timeline.empty();
  }

  LogicalResult import() {
    frontend::ImportOptions importOptions = frontend::makeImportOptions(job);
    if (job.has_device_configuration()) {
      importOptions.annotations = {job.device_configuration(), makeDeviceMesh(job, &context)};
    }
    importOptions.checkDataFile = [this](StringRef path) { return files.addInput("external data of the model,", path); };
    if (isHybrid()) {
      FailureOr<frontend::LocalModel> local = pipelines::describeLocalModel(job, &context);
      if (failed(local)) {
        return failure();
      }
      importOptions.local = *local;
    }
    llvm::Expected<OwningOpRef<ModuleOp>> imported = frontend::importOnnx(options.model, importOptions, &context);
    if (!imported) {
      return command::report(imported.takeError());
    }
    module = std::move(*imported);
    if (failed(dump("import", *module)) || (job.has_loss() && failed(makeExport()))) {
      return failure();
    }
    return liftHybrid();
  }

  // Makes the content of --export of the executable.
  LogicalResult makeExport() {
    if (isHybrid()) {
      exported.refusal = "in mode HYBRID the model is one device's";
      return success();
    }
    llvm::Expected<frontend::ExportTemplate> made = frontend::makeExportTemplate(options.model, *module, modelName(*module));
    if (!made) {
      return command::report(made.takeError());
    }
    exported.text = std::move(made->text);
    exported.dataFile = std::move(made->dataFile);
    exported.refusal = std::move(made->refusal);
    for (frontend::ExportHole &hole : made->holes) {
      exported.holes.push_back({hole.offset, std::move(hole.variable), hole.type, hole.bytes, hole.isTransposed});
    }
    return success();
  }

  bool isHybrid() const { return job::effectiveMode(job) == job::HYBRID; }

  // A model of mode HYBRID is on local shapes; later stages need global ones.
  LogicalResult liftHybrid() {
    if (!isHybrid()) {
      return success();
    }
    PassManager passes(&context);
    pipelines::attachRules(*module, job);
    pipelines::addHybridPasses(passes);
    return failed(passes.run(*module)) ? failure() : dump("lift", *module);
  }

  LogicalResult runTrainPasses(ModuleOp model) {
    PassManager passes(&context);
    pipelines::addTrainPasses(passes, job, target->kind(), options.joinsAttention);
    return passes.run(model);
  }

  // Has as many loops computed again in segments as the memory of a device asks for. What is wrong with the job is reported later.
  void chooseLoops() {
    Builder builder(&context);
    ScopedDiagnosticHandler silent(&context, [](Diagnostic &) { return success(); });
    auto train = [&](int64_t loops) {
      OwningOpRef<ModuleOp> trained = module->clone();
      (*trained)->setAttr(dist::kSegmentedLoopsAttr, builder.getI64IntegerAttr(loops));
      return succeeded(runTrainPasses(*trained)) ? std::move(trained) : OwningOpRef<ModuleOp>();
    };
    FailureOr<int64_t> loops = trials.chooseLoops(train, listVariants().variants.front());
    if (succeeded(loops) && *loops > 0) {
      (*module)->setAttr(dist::kSegmentedLoopsAttr, builder.getI64IntegerAttr(*loops));
    }
  }

  pipelines::VariantList listVariants() {
    pipelines::VariantList list = pipelines::listVariants(job, target->kind());
    for (pipelines::Variant &variant : list.variants) {
      variant.overlaps = options.overlaps;
      if (variant.search) {
        variant.search->effort = options.searchEffort;
        variant.search->seconds = options.searchSeconds;
        planning::searchByForecast(variant, job, memoryLimit);
      }
    }
    return list;
  }

  LogicalResult train() {
    classLabels = findClassLabels(job, *module);
    tableRows = findTableRows(*module);
    pipelines::attachSettings(*module, job);
    chooseLoops();
    if (failed(runTrainPasses(*module))) {
      return failure();
    }
    if (func::FuncOp decode = nn::findProgram(*module, nn::ProgramRole::Decode)) {
      positions = decode->getAttrOfType<IntegerAttr>(decode::kContextAttr).getInt();
    }
    if (func::FuncOp evaluation = nn::findProgram(*module, nn::ProgramRole::EvalStep)) {
      for (unsigned i = 0; i < evaluation.getNumResults(); ++i) {
        auto least = evaluation.getResultAttrOfType<FloatAttr>(i, nn::kLeastAttr);
        leastWeight = least ? least.getValueAsDouble() : leastWeight;
      }
    }
    return dump("train", *module);
  }

  // Prints one line a parameter with its fusion id; 0 where none was given.
  void printParameters() {
    for (auto variable : module->getOps<nn::VariableOp>()) {
      if (variable.getTrainable()) {
        auto id = variable->getAttrOfType<IntegerAttr>(dist::kCommFusionAttr);
        llvm::outs() << "The parameter " << variable.getSymName() << "'s fusion id is " << (id ? id.getInt() : 0) << "\n";
      }
    }
    llvm::outs().flush();
  }

  // Compiles the programs once for each variant, each time from the same module on global shapes, and puts the tables together.
  LogicalResult lower() {
    variantList = listVariants();
    OwningOpRef<ModuleOp> programs = std::move(module);
    for (pipelines::Variant &variant : variantList.variants) {
      OwningOpRef<ModuleOp> lowered = programs->clone();
      bool isDefault = &variant == &variantList.variants.front();
      if (failed(place(*lowered, variant, isDefault))) {
        return failure();
      }
      if (options.emit == command::Emit::Dist && !options.output.empty() && failed(writeModule(*lowered))) {
        return failure();
      }
      bool isWanted = !options.output.empty() && options.emit != command::Emit::Nn && options.emit != command::Emit::Dist;
      if (!isWanted && !layoutReport && options.timeline.empty()) {
        return success();
      }
      PassManager exec(&context);
      const bool mayLeaveOut = !isDefault && !job.has_deterministic();
      pipelines::addLowerPasses(exec, variant, mayLeaveOut ? 0 : memoryLimit);
      LogicalResult planned = exec.run(*lowered);
      if (mayLeaveOut && succeeded(planned) && leavesOut(*lowered, variant)) {
        continue;
      }
      if (succeeded(planned) && variant.pipeline) {
        lowered = pipelines::mergeStages(std::move(lowered));
      }
      if (isDefault && succeeded(planned)) {
        describe(*lowered, variant);
      }
      if (isDefault && failed(explain(*lowered))) { // of a program that does not fit, too
        return failure();
      }
      if (!isWanted || failed(planned)) {
        return planned;
      }
      if (failed(dump(variant.name + "-exec", *lowered))) {
        return failure();
      }
      if (module) {
        pipelines::mergeVariants(*module, *lowered);
      } else {
        module = std::move(lowered);
      }
    }
    return success();
  }

  // Whether a deterministic variant that the job does not ask for needs more than the memory of a device. Then the executable reports it.
  bool leavesOut(ModuleOp planned, const pipelines::Variant &variant) {
    uint64_t bytes = 0;
    for (const lower::MemoryUse &use : planning::countMemory(planned, variant)) {
      bytes = std::max(bytes, use.bytes());
    }
    if (memoryLimit == 0 || bytes <= static_cast<uint64_t>(memoryLimit)) {
      return false;
    }
    const auto [needed, limit] = comparedBytes(bytes, memoryLimit, /*decimals=*/2);
    const std::string why =
        llvm::formatv("with {0} devices a rank it needs {1}, but the memory is {2}", variant.devicesPerProcess, needed, limit).str();
    planned.emitRemark("the deterministic variant is left out: ") << why << "; deterministic {} in the job asks for it";
    variantList.deterministicRefusal = "--deterministic: the variant was left out: " + why + "; compile it for more memory";
    return true;
  }

  // Partitions the programs for one device; for the default variant writes the requested outputs of its layouts.
  LogicalResult place(ModuleOp programs, pipelines::Variant &variant, bool isDefault) {
    PassManager dist(&context);
    const bool isExplained = isDefault && asksForReport(options);
    if (isExplained && variant.search) {
      programs->setAttr(search::kExplainAttr, UnitAttr::get(&context));
    }
    if (failed(pipelines::inferLayouts(programs, variant, job)) ||
        (isDefault && (failed(command::report(saveStrategy(options, job, meshes, programs))) ||
                       failed(command::report(saveAnnotations(options, programs)))))) {
      return failure();
    }
    if (isDefault && (planning::wasSearchStopped(programs) || (meshes && meshes->isStopped))) {
      emitWarning(UnknownLoc::get(&context), report::stoppedText(options.searchSeconds));
    }
    // The bits of the deterministic variant must not depend on the number of ranks, by which its memory goes.
    FailureOr<std::optional<planning::SyncChoice>> sync =
        isDefault ? trials.chooseSync(programs, variant) : std::optional<planning::SyncChoice>();
    if (failed(sync) || failed(trials.chooseRecompute(programs, variant))) {
      return failure();
    }
    const bool hasGraph = isExplained && !(options.report.empty() && options.html.empty());
    report::ModelGraph graph = hasGraph ? readGraph(programs, variant) : report::ModelGraph();
    pipelines::addOptimizerParallelPasses(dist, variant);
    pipelines::addDistPasses(dist, variant);
    if (failed(dist.run(programs)) || failed(dump(variant.name + "-dist", programs)) ||
        failed(command::report(saveOrder(options, programs)))) {
      return failure();
    }
    return isExplained ? reportLayouts(programs, variant, *sync, std::move(graph)) : success();
  }

  // Collects the facts of one device's programs, and how much of each collective their order will hide.
  LogicalResult reportLayouts(ModuleOp programs, const pipelines::Variant &variant, const std::optional<planning::SyncChoice> &sync,
                              report::ModelGraph graph) {
    layoutReport = report::makeLayoutReport(programs, modelName(programs), std::move(graph));
    layoutReport->jobRules = listRules(job);
    if (sync) {
      layoutReport->gradientSync = planning::describeSync(*sync);
    }
    if (meshes) {
      layoutReport->meshSearch = planning::describeMeshes(*meshes, memoryLimit, options.searchSeconds);
    }
    OwningOpRef<ModuleOp> scheduled = programs.clone();
    report::numberCollectives(*scheduled);
    PassManager passes(&context);
    pipelines::addFusionPasses(passes, variant);
    if (failed(passes.run(*scheduled))) {
      return failure();
    }
    report::addOverlap(*layoutReport, *scheduled);
    return success();
  }

  // Records the facts of the default variant once its tables are planned.
  void describe(ModuleOp planned, const pipelines::Variant &variant) {
    for (const lower::MemoryUse &use : planning::countMemory(planned, variant)) {
      memory = use.bytes() > memory.bytes() ? use : memory; // of a pipeline, of a rank of the largest stage
    }
    const SmallVector<exec::VariantOp> stages = planning::tablesOf(planned);
    order = *lower::checkCollectiveOrder(stages.front()); // ashlar-verify-exec let it pass
    pipeline = planning::describePipeline(planned, variant, job);
    if (layoutReport) {
      report::addPredictions(*layoutReport, stages);
      layoutReport->plan = planOf(stages);
    }
  }

  // Writes the requested outputs about layouts, memory and stages.
  LogicalResult explain(ModuleOp planned) {
    if (pipeline && failed(drawTimeline(planned))) {
      return failure();
    }
    if (!layoutReport) {
      return success();
    }
    layoutReport->memory = memory;
    layoutReport->order = order;
    layoutReport->pipeline = pipeline;
    return command::report(writeReport(options, *layoutReport));
  }

  LogicalResult drawTimeline(ModuleOp planned) {
    std::string name = modelName(planned);
    return options.timeline.empty() ? success() : command::report(writeOutput(options.timeline, [&](llvm::raw_ostream &out) {
      out << report::timelineSvg(*pipeline, name);
    }));
  }

  std::string modelName(ModuleOp programs) { return programs.getName().value_or(llvm::sys::path::stem(options.model)).str(); }

  // "cuda (sm_90, later chips by PTX of compute_90), precision F32, tf32 off".
  std::string targetText() {
    std::string text = target->text() + ", precision " + job::Precision_Name(job.precision());
    return exec::traitsOf(target->kind()).hasTf32 ? text + ", tf32 " + (job.allow_tf32() ? "on" : "off") : text;
  }

  llvm::Expected<target::ImageInfo> makeImageInfo() {
    target::ImageInfo info;
    info.modelName = modelName(*module);
    info.target = options.target;
    info.seed = job.seed();
    info.deterministicRefusal = variantList.deterministicRefusal;
    info.memoryLimit = memoryLimit;
    info.context = positions;
    SmallVector<exec::VariantOp> stages; // of the default variant
    for (auto each : module->getOps<exec::VariantOp>()) {
      if (stages.size() < static_cast<size_t>(each.getNumStages())) {
        stages.push_back(each);
      }
    }
    if (job.has_loss()) {
      llvm::Expected<target::TrainingInfo> training = makeTrainingInfo(job, target->kind(), stages, classLabels, tableRows);
      if (!training) {
        return training.takeError();
      }
      info.training = std::move(*training);
      info.training->leastWeight = leastWeight;
      info.exported = std::move(exported);
    }
    auto nameIfThere = [&](StringRef name) {
      bool isThere = llvm::any_of(stages, [&](exec::VariantOp stage) { return SymbolTable::lookupSymbolIn(stage, name) != nullptr; });
      return isThere ? name.str() : "";
    };
    info.seedTensor = nameIfThere(nn::kSeedVariable);
    info.stepTensor = nameIfThere(nn::kStepVariable);
    info.plan = planOf(stages);
    return info;
  }

  // Returns the lines of --plan of the executable, of all stages of the default variant.
  std::string planOf(ArrayRef<exec::VariantOp> stages) {
    std::string text;
    for (exec::VariantOp stage : stages) {
      const report::StageFacts *own = pipeline ? &pipeline->stages[stage.getStage()] : nullptr;
      text += (text.empty() ? "" : "\n") +
              report::planText(
                  stage, {modelName(stage->getParentOfType<ModuleOp>()), targetText(), job.global_batch(),
                          job.has_loss() ? variantList.deterministicRefusal : "",
                          job.has_loss() ? report::optimizerText(job.optimizer()) : "", job::microBatches(job),
                          variantList.variants.front().optimizerParallel ? report::optimizerParallelText(job.optimizer_parallel()) : "",
                          own ? own->memory : memory, own ? own->order : order, pipeline ? &*pipeline : nullptr,
                          variantList.variants.front().ranksPerHost});
    }
    return text;
  }

  LogicalResult generate() {
    llvm::Expected<target::ImageInfo> info = makeImageInfo();
    return info ? command::generateCode(*module, *info, *target, options) : command::report(info.takeError());
  }

  LogicalResult writeModule(ModuleOp op) {
    return command::report(
        writeOutput(options.output, [&](llvm::raw_ostream &out) { op.print(out, OpPrintingFlags().enableDebugInfo(false)); }));
  }

  // Writes a phase to the dump folder, numbered in the order of the compilation, with long constants left out.
  LogicalResult dump(StringRef phase, ModuleOp op) {
    if (options.dumpFolder.empty()) {
      return success();
    }
    std::string name = llvm::formatv("{0}/{1}{2}-{3}.mlir", options.dumpFolder, phaseCount < 10 ? "0" : "", phaseCount, phase);
    ++phaseCount;
    if (failed(command::report(files.addOutput("--dump-phases", name)))) {
      return failure();
    }
    OpPrintingFlags flags;
    flags.elideLargeElementsAttrs(16).elideLargeResourceString(64).enableDebugInfo(false);
    return command::report(writeOutput(name, [&](llvm::raw_ostream &out) { op.print(out, flags); }));
  }

  const command::Options &options;
  const planning::FoundMeshes *meshes;
  target::ExportInfo exported;
  MLIRContext context;
  command::DiagnosticPrinter printer;
  file::FileRoles files;
  std::unique_ptr<command::CodeTarget> target;
  int64_t memoryLimit;
  job::Job job;
  TrialPlans trials;
  OwningOpRef<ModuleOp> module;
  pipelines::VariantList variantList;
  std::optional<report::LayoutReport> layoutReport; // of the default variant, when asked for
  lower::MemoryUse memory;                          // of the default variant
  lower::CollectiveOrder order;                     // the same
  std::optional<report::PipelineFacts> pipeline;    // the same, where it has one
  llvm::StringMap<ClassLabels> classLabels;
  llvm::StringMap<uint64_t> tableRows;
  std::optional<int64_t> positions; // of a model that generates text
  double leastWeight = 0;           // that the losses of an evaluation are divided by
  unsigned phaseCount = 0;
};

} // namespace

int compile(const command::Options &options) {
  if (options.inspect || options.suggestJob) {
    return succeeded(inspectModel(options)) ? 0 : 1;
  }
  llvm::Expected<command::Input> input = command::readInput(options);
  llvm::Error error = input ? llvm::Error::success() : input.takeError();
  std::optional<planning::FoundMeshes> meshes;
  if (!error && input->job.mesh().has_devices()) {
    llvm::Expected<planning::FoundMeshes> found = planning::chooseMesh(options, *input);
    if (found) {
      meshes = std::move(*found);
    } else {
      error = found.takeError();
    }
  }
  LogicalResult done =
      error ? command::report(std::move(error)) : Compilation(options, std::move(*input), meshes ? &*meshes : nullptr).run();
  return succeeded(done) ? 0 : 1;
}

} // namespace ashlar::driver
