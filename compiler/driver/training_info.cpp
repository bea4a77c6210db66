// SPDX-License-Identifier: Apache-2.0
//
// job.proto -> ImageInfo, and the check that data set and model fit together.

#include "compiler/driver/training_info.h"

#include "compiler/job/job.h"
#include "dialects/nn/nonfinite_steps.h"
#include "dialects/nn/programs.h"
#include "runtime/abi/sample_shapes.h"

#include "llvm/ADT/StringExtras.h"

namespace ashlar::driver {
namespace {

using target::DatasetInfo;
using target::FeatureInfo;
using target::TransformInfo;

// Sets the format and what a generator takes.
void setSource(const job::Dataset &dataset, DatasetInfo &info) {
  switch (dataset.source_case()) {
  case job::Dataset::kNpy:
    info.format = "npy";
    break;
  case job::Dataset::kCifar10:
    info.format = "cifar10";
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

// {mean, ..., std, ...}: as many of each as the longer list has.
std::vector<double> normalizeNumbers(const job::Dataset::Normalize &normalize) {
  std::vector<double> means(normalize.mean().begin(), normalize.mean().end()), deviations(normalize.std().begin(), normalize.std().end());
  size_t channels = std::max<size_t>({1, means.size(), deviations.size()});
  means.resize(channels, means.empty() ? 0 : means[0]);
  deviations.resize(channels, deviations.empty() ? 1 : deviations[0]);
  means.insert(means.end(), deviations.begin(), deviations.end());
  return means;
}

double dtypeOf(job::Dataset::TypeCast::Type type) {
  switch (type) {
  case job::Dataset::TypeCast::F32:
    return ASHLAR_RT_F32;
  case job::Dataset::TypeCast::F64:
    return ASHLAR_RT_F64;
  case job::Dataset::TypeCast::F16:
    return ASHLAR_RT_F16;
  case job::Dataset::TypeCast::I32:
    return ASHLAR_RT_I32;
  case job::Dataset::TypeCast::I64:
    return ASHLAR_RT_I64;
  case job::Dataset::TypeCast::BOOL:
    return ASHLAR_RT_BOOL;
  }
  llvm_unreachable("unknown type");
}

TransformInfo makeTransform(const job::Dataset::Transform &transform) {
  switch (transform.kind_case()) {
  case job::Dataset::Transform::kRescale:
    return {ASHLAR_RT_RESCALE, {transform.rescale().scale(), transform.rescale().shift()}};
  case job::Dataset::Transform::kNormalize:
    return {ASHLAR_RT_NORMALIZE, normalizeNumbers(transform.normalize())};
  case job::Dataset::Transform::kResize:
    return {ASHLAR_RT_RESIZE, {double(transform.resize().height()), double(transform.resize().width())}};
  case job::Dataset::Transform::kRandomCrop: {
    const auto &crop = transform.random_crop();
    return {ASHLAR_RT_RANDOM_CROP, {double(crop.height()), double(crop.width()), double(crop.padding())}};
  }
  case job::Dataset::Transform::kRandomHorizontalFlip:
    return {ASHLAR_RT_RANDOM_FLIP, {transform.random_horizontal_flip().probability()}};
  case job::Dataset::Transform::kHwc2Chw:
    return {ASHLAR_RT_HWC_TO_CHW, {}};
  case job::Dataset::Transform::kTypeCast:
    return {ASHLAR_RT_TYPE_CAST, {dtypeOf(transform.type_cast().type())}};
  case job::Dataset::Transform::kOneHot:
    return {ASHLAR_RT_ONE_HOT, {double(transform.one_hot().classes())}};
  case job::Dataset::Transform::KIND_NOT_SET:
    break;
  }
  llvm_unreachable("checkJob lets no other pass");
}

FeatureInfo makeFeature(const job::Dataset::Feature &feature) {
  FeatureInfo info;
  info.column = feature.column();
  info.tensor = feature.tensor();
  for (const job::Dataset::Transform &transform : feature.transforms()) {
    info.transforms.push_back(makeTransform(transform));
  }
  if (feature.layout() == job::Dataset::Feature::NHWC) {
    info.transforms.push_back({ASHLAR_RT_HWC_TO_CHW, {}});
  }
  return info;
}

// Returns the shape of the samples of a column, as far as the job knows it; files of other formats have it in their headers.
rt::SampleShape shapeOf(const job::Dataset &dataset, llvm::StringRef column) {
  rt::SampleShape shape;
  bool isImage = column == "image";
  if (dataset.has_cifar10()) {
    shape.dims = isImage ? std::vector<int64_t>{32, 32, 3} : std::vector<int64_t>();
  } else if (dataset.has_regression()) {
    shape.dims = {column == "x" ? 2 : 1};
  } else {
    // The images of digits may give way to files of any size.
    shape.isKnown = !dataset.has_npy() && !isImage;
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
