// SPDX-License-Identifier: Apache-2.0
//
// job.proto -> TrainingInfo, and the check that data set and model fit together.

#include "compiler/driver/training_info.h"

#include "compiler/cost/machine.h"
#include "compiler/driver/dataset_info.h"
#include "compiler/job/job.h"
#include "dialects/nn/nonfinite_steps.h"
#include "dialects/nn/programs.h"
#include "dialects/nn/scratch_state.h"
#include "runtime/abi/sample_shapes.h"

#include "llvm/ADT/StringExtras.h"

namespace ashlar::driver {
namespace {

using target::DatasetInfo;
using target::FeatureInfo;
using target::TransformInfo;

// Returns the shape of the samples of a column, as far as the job knows it; files of other formats have it in their headers.
rt::SampleShape shapeOf(const job::Dataset &dataset, llvm::StringRef column) {
  rt::SampleShape shape;
  bool isImage = column == "image";
  if (dataset.has_cifar10()) {
    shape.dims = isImage ? std::vector<int64_t>{32, 32, 3} : std::vector<int64_t>();
  } else if (dataset.has_regression()) {
    shape.dims = {column == "x" ? 2 : 1};
  } else if (dataset.has_images()) {
    shape.dims = isImage ? std::vector<int64_t>{dataset.images().height(), dataset.images().width(), 3} : std::vector<int64_t>();
  } else if (dataset.has_tokens() || dataset.has_text()) {
    const int64_t window = dataset.has_text() ? dataset.text().sequence_length() : dataset.tokens().sequence_length();
    shape.dims.assign(column == "mask" ? 2 : 1, window);
  } else {
    // The images of digits may give way to files of any size.
    shape.isKnown = (dataset.has_idx() || dataset.has_digits()) && !isImage;
  }
  return shape;
}

// Checks that the transforms of a feature fit each other and, where its shape is known, the column and the tensor.
llvm::Error checkShapes(const job::Dataset &dataset, const FeatureInfo &feature, llvm::ArrayRef<int64_t> tensor) {
  rt::SampleShape shape = shapeOf(dataset, feature.column);
  std::vector<int64_t> wanted(tensor.drop_front()); // dim 0 is the batch
  llvm::SmallVector<ashlar_rt_transform> transforms;
  for (const TransformInfo &transform : feature.transforms) {
    transforms.push_back({transform.kind, static_cast<uint32_t>(transform.numbers.size()), transform.numbers.data()});
  }
  std::string fault = rt::applyToShape(feature.column.c_str(), transforms.data(), transforms.size(), shape);
  if (fault.empty() && shape.isKnown) {
    fault = rt::sampleFault(feature.column, transforms.size(), shape.dims, feature.tensor, wanted);
  }
  return fault.empty() ? llvm::Error::success() : llvm::createStringError("the dataset's " + fault);
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

// Returns the shape of an input of any of the stages.
llvm::ArrayRef<int64_t> inputShape(llvm::ArrayRef<exec::VariantOp> stages, llvm::StringRef name) {
  for (exec::VariantOp stage : stages) {
    for (auto tensor : stage.getBody().getOps<exec::TensorOp>()) {
      if (tensor.getRole() == exec::Role::Input && tensor.getOutsideName().value_or(tensor.getSymName()) == name) {
        return tensor.getGlobalShape();
      }
    }
  }
  return {};
}

// Returns the name of a state of the programs of any of the stages; "" when none has it.
std::string stateNamed(llvm::ArrayRef<exec::VariantOp> stages, llvm::StringRef name) {
  return llvm::any_of(stages, [&](exec::VariantOp stage) { return mlir::SymbolTable::lookupSymbolIn(stage, name) != nullptr; }) ? name.str()
                                                                                                                                : "";
}

// Checks that the loss ignores the label of targets that do not count. The label may be a class, such as one for padding.
llvm::Error checkIgnoresTargets(const FeatureInfo &feature) {
  if (feature.classes != 0 && !feature.ignoredLabel) {
    return llvm::createStringError("documents.predict_next: false leaves out targets of \"" + feature.tensor +
                                   "\" but the loss ignores no label; give the loss an ignore_index: -100");
  }
  return llvm::Error::success();
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

// Sets the rates of large products, where the job or --machine describes the devices: defaults are no measurement of the user's machine.
void setPeaks(const job::Job &job, exec::Target target, target::TrainingInfo &info) {
  const job::Machine &given = job.machine();
  const analysis::DeviceRates device = cost::machineOf(job, target).device;
  if (given.has_preset() || given.device().has_gflop_per_s()) {
    info.peakFlopsPerUs = device.flopsPerUs;
  }
  if (given.has_preset() || given.device().has_narrow_gflop_per_s()) {
    info.narrowPeakFlopsPerUs = device.narrowFlopsPerUs;
  }
}

} // namespace

llvm::Expected<target::TrainingInfo> makeTrainingInfo(const job::Job &job, exec::Target target, llvm::ArrayRef<exec::VariantOp> stages,
                                                      const llvm::StringMap<ClassLabels> &labels,
                                                      const llvm::StringMap<uint64_t> &tableRows) {
  target::TrainingInfo info;
  info.dataset = makeDatasetInfo(job.dataset());
  for (FeatureInfo &feature : info.dataset.features) {
    ClassLabels classes = labels.lookup(feature.tensor);
    feature.classes = classes.classes;
    feature.ignoredLabel = classes.ignored;
    feature.tableRows = tableRows.lookup(feature.tensor);
    const bool leavesOut = !job.dataset().tokens().documents().predict_next() && feature.column == "targets";
    if (llvm::Error error = leavesOut ? checkIgnoresTargets(feature) : llvm::Error::success()) {
      return std::move(error);
    }
  }
  auto isEvaluation = [](exec::ProgramOp program) { return nn::isEvaluation(program); };
  auto trains = [&](exec::ProgramOp program) { return !isEvaluation(program); };
  if (llvm::Error error = checkFeatures(info.dataset, outsideNames(stages, trains, inputsOf))) {
    return std::move(error);
  }
  for (const FeatureInfo &feature : info.dataset.features) {
    if (llvm::Error error = checkShapes(job.dataset(), feature, inputShape(stages, feature.tensor))) {
      return std::move(error);
    }
  }
  info.globalBatch = job::programBatch(job);
  info.accumulate = job::microBatches(job);
  info.epochs = job.epochs();
  info.logEvery = job.log_every(); // 0 when the job leaves it open
  info.savesCheckpoints = job.has_checkpoint();
  info.checkpointPrefix = job.checkpoint().prefix();
  info.checkpointEvery = job.checkpoint().every_steps();
  info.checkpointKeep = job.checkpoint().keep();
  info.savesOnSignal = job.checkpoint().last_on_signal();
  info.stopsOnNonfinite = job.on_nonfinite() == job::Nonfinite::STOP;
  info.badNormsTensor = stateNamed(stages, nn::kBadNormsVariable);
  info.skippedStepsTensor = stateNamed(stages, nn::kSkippedStepsVariable);
  info.learningRate = job.optimizer().learning_rate();
  info.learningRateTensor = stateNamed(stages, nn::kLearningRateVariable);
  info.gradientNormTensor = stateNamed(stages, nn::kGradientNormVariable);
  setPeaks(job, target, info);
  info.lossTensor = nn::kLossResult.str();
  const llvm::SmallVector<llvm::StringRef> evaluated = outsideNames(stages, isEvaluation, outputsOf);
  auto nameOf = [&](llvm::StringRef output) { return llvm::is_contained(evaluated, output) ? output.str() : ""; };
  info.correctTensor = nameOf(nn::kCorrectResult);
  info.rowsTensor = nameOf(nn::kRowsResult);
  info.weightTensor = nameOf(nn::kLossWeightResult);
  if (llvm::is_contained(outsideNames(stages, isEvaluation, inputsOf), nn::kSamplesInput)) {
    info.samplesTensor = nn::kSamplesInput.str();
  }
  return info;
}

} // namespace ashlar::driver
