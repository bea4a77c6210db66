// SPDX-License-Identifier: Apache-2.0
//
// job.proto -> ImageInfo, and the check that data set and model fit together.

#include "compiler/driver/training_info.h"

#include "compiler/job/job.h"
#include "dialects/nn/programs.h"

#include "llvm/ADT/StringExtras.h"

namespace ashlar::driver {
namespace {

using target::DatasetInfo;
using target::FeatureInfo;

// Sets the format and what a generator takes.
void setSource(const job::Dataset &dataset, DatasetInfo &info) {
  switch (dataset.source_case()) {
  case job::Dataset::kNpy:
    info.format = "npy";
    break;
  case job::Dataset::kDigits:
    info.format = "digits";
    info.directoryFormat = "idx";
    info.trainSamples = dataset.digits().train_samples();
    info.evalSamples = dataset.digits().eval_samples();
    break;
  case job::Dataset::kRegression: {
    const auto &source = dataset.regression();
    info.format = "regression";
    info.trainSamples = source.train_samples();
    info.evalSamples = source.eval_samples();
    info.params = {source.a(), source.b(), source.c(), source.noise()};
    break;
  }
  default: // checkJob lets no other pass
    info.format = "idx";
    break;
  }
}

FeatureInfo makeFeature(const job::Dataset::Feature &feature) {
  FeatureInfo info;
  info.column = feature.column();
  info.tensor = feature.tensor();
  for (const job::Dataset::Transform &transform : feature.transforms()) {
    if (transform.has_rescale()) {
      info.transforms.push_back({ASHLAR_RT_RESCALE, transform.rescale().scale(), transform.rescale().shift()});
    } else {
      info.transforms.push_back({ASHLAR_RT_NORMALIZE, transform.normalize().mean(), transform.normalize().std()});
    }
  }
  return info;
}

// Returns the outside names of the inputs, or outputs, of a program of any of the stages, but for what they pass to each other.
llvm::SmallVector<llvm::StringRef> outsideNames(llvm::ArrayRef<exec::VariantOp> stages, llvm::function_ref<bool(exec::ProgramOp)> isWanted,
                                                llvm::function_ref<mlir::ArrayAttr(exec::ProgramOp)> symbolsOf) {
  llvm::SmallVector<llvm::StringRef> names;
  for (exec::VariantOp stage : stages) {
    for (auto program : stage.getBody().getOps<exec::ProgramOp>()) {
      if (!isWanted(program)) {
        continue;
      }
      for (auto symbol : symbolsOf(program).getAsRange<mlir::FlatSymbolRefAttr>()) {
        auto tensor = mlir::cast<exec::TensorOp>(mlir::SymbolTable::lookupSymbolIn(stage, symbol.getAttr()));
        llvm::StringRef name = tensor.getOutsideName().value_or(tensor.getSymName());
        if (tensor.getRole() != exec::Role::Passed && !llvm::is_contained(names, name)) {
          names.push_back(name);
        }
      }
    }
  }
  return names;
}

mlir::ArrayAttr inputsOf(exec::ProgramOp program) {
  return program.getInputs();
}
mlir::ArrayAttr outputsOf(exec::ProgramOp program) {
  return program.getOutputs();
}

llvm::Error checkFeatures(const DatasetInfo &dataset, llvm::ArrayRef<llvm::StringRef> inputs) {
  for (const FeatureInfo &feature : dataset.features) {
    if (!llvm::is_contained(inputs, feature.tensor)) {
      return llvm::createStringError("the dataset feeds column \"" + feature.column + "\" to \"" + feature.tensor +
                                     "\", which is not an input of the training step; its inputs are \"" + llvm::join(inputs, "\", \"") +
                                     "\"");
    }
  }
  for (llvm::StringRef input : inputs) {
    if (llvm::none_of(dataset.features, [&](const FeatureInfo &feature) { return feature.tensor == input; })) {
      return llvm::createStringError("no feature of the dataset feeds the input \"" + input +
                                     "\"; add features { column: \"...\" tensor: \"" + input + "\" }");
    }
  }
  return llvm::Error::success();
}

} // namespace

llvm::Expected<target::TrainingInfo> makeTrainingInfo(const job::Job &job, llvm::ArrayRef<exec::VariantOp> stages,
                                                      const llvm::StringMap<ClassLabels> &labels) {
  target::TrainingInfo info;
  setSource(job.dataset(), info.dataset);
  info.dataset.shuffle = job.dataset().shuffle();
  info.dataset.dropRemainder = job.dataset().drop_remainder();
  info.dataset.repeat = job.dataset().repeat();
  for (const job::Dataset::Feature &feature : job.dataset().features()) {
    FeatureInfo made = makeFeature(feature);
    ClassLabels classes = labels.lookup(feature.tensor());
    made.classes = classes.classes;
    made.ignoredLabel = classes.ignored;
    info.dataset.features.push_back(std::move(made));
  }
  auto isEvaluation = [](exec::ProgramOp program) { return nn::isEvaluation(program.getSymName()); };
  auto trains = [&](exec::ProgramOp program) { return !isEvaluation(program); };
  if (llvm::Error error = checkFeatures(info.dataset, outsideNames(stages, trains, inputsOf))) {
    return std::move(error);
  }
  info.globalBatch = job::programBatch(job);
  info.accumulate = job::microBatches(job);
  info.epochs = job.epochs();
  info.logEvery = job.log_every(); // 0 when the job leaves it open
  info.lossTensor = "loss";
  if (llvm::is_contained(outsideNames(stages, isEvaluation, outputsOf), "correct")) {
    info.correctTensor = "correct";
  }
  if (llvm::is_contained(outsideNames(stages, isEvaluation, inputsOf), nn::kSamplesInput)) {
    info.samplesTensor = nn::kSamplesInput.str();
  }
  return info;
}

} // namespace ashlar::driver
