// SPDX-License-Identifier: Apache-2.0
//
// A job as the options of an import, and the import for one batch size or two.

#include "compiler/frontend/import.h"

#include "compiler/frontend/importer/importer.h"
#include "compiler/frontend/registry.h"
#include "compiler/job/job.h"
#include "dialects/nn/programs.h"

using namespace mlir;

namespace ashlar::frontend {

ImportOptions makeImportOptions(const job::Job &job) {
  ImportOptions options;
  if (job.has_global_batch()) {
    options.globalBatch = job::programBatch(job);
    options.batchName = job.accumulate() == 1 ? "global_batch" : "global_batch / accumulate";
  }
  for (const job::Dim &dim : job.dims()) {
    if (dim.has_input()) {
      options.inputDims[{dim.input(), dim.dim()}] = dim.size();
    } else {
      options.dims[dim.name()] = dim.size();
    }
  }
  // Which numbers of a loss depend on the number of samples is seen where there are more of them.
  const bool asksForSamples = job.loss().has_model_output() || job::microBatches(job) > 1 || job::ignoredLabel(job);
  if (job.has_loss() && job.has_global_batch() && job::effectiveMode(job) != job::HYBRID && asksForSamples) {
    options.largerBatch = job::programBatch(job) * std::max<int64_t>(job::microBatches(job), 2);
  }
  options.inputs.assign(job.inputs().begin(), job.inputs().end());
  options.training = options.needsParameters = job.has_loss();
  options.findsBuffers = job::generatesText(job); // causal attentions are found by the numbers of their masks
  options.straightThrough = job.straight_through();
  options.init.assign(job.init().begin(), job.init().end());
  options.frozen.assign(job.frozen().begin(), job.frozen().end());
  options.trained.assign(job.trained().begin(), job.trained().end());
  options.loss = job::lossName(job);
  for (const job::Tie &tie : job.ties()) {
    options.ties[tie.parameter()] = tie.to();
  }
  options.untieAuto = job.untie().empty();
  for (const std::string &glob : job.untie()) {
    if (glob == "AUTO") {
      options.untieAuto = true;
    } else if (glob != "NEVER") {
      options.untie.push_back(glob);
    }
  }
  if (job.has_batch_norm_variance()) {
    options.unbiasedVariance = job.batch_norm_variance() == job::BatchNorm::TORCH;
  }
  for (const job::Dataset::Feature &feature : job.dataset().features()) {
    options.dataInputs.push_back(feature.tensor());
  }
  options.mode = job::Mode_Name(job::effectiveMode(job));
  return options;
}

namespace {

// Adds @larger_forward to a module where the model can be imported for the larger batch: one with a fixed batch cannot.
void addLargerForward(ModuleOp module, StringRef path, const ImportOptions &options, MLIRContext *context) {
  ImportOptions larger = options;
  larger.globalBatch = options.largerBatch;
  larger.facts = nullptr;
  ScopedDiagnosticHandler silent(context, [](Diagnostic &) { return success(); }); // all has been said
  try {
    OwningOpRef<ModuleOp> made = Importer(path, larger, context).run();
    func::FuncOp forward = nn::findProgram(*made, nn::ProgramRole::Run);
    forward->remove();
    forward.setPrivate();
    module.push_back(forward);
    nn::setProgram(forward, nn::ProgramRole::LargerRun);
  } catch (const ImportError &) {
  }
}

} // namespace

llvm::Expected<OwningOpRef<ModuleOp>> importOnnx(StringRef path, const ImportOptions &options, MLIRContext *context) {
  context->loadDialect<dist::DistDialect, func::FuncDialect, nn::NnDialect>();
  loadPluginDialects(context);
  std::string message;
  try {
    OwningOpRef<ModuleOp> module = Importer(path, options, context).run();
    if (options.largerBatch > 0) {
      addLargerForward(*module, path, options, context);
    }
    return module;
  } catch (const std::exception &error) {
    message = describeFailure(error);
  }
  return llvm::createStringError(llvm::inconvertibleErrorCode(), path + ": " + message);
}

} // namespace ashlar::frontend
