// SPDX-License-Identifier: Apache-2.0
//
// job.proto -> DatasetInfo.

#include "compiler/driver/dataset_info.h"

#include "runtime/abi/ashlar_rt.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ErrorHandling.h"

namespace ashlar::driver {
namespace {

using target::DatasetInfo;
using target::FeatureInfo;
using target::TransformInfo;

// Sets the files and the numbers of a data set of tokens.
void setTokens(const job::Dataset::Tokens &tokens, DatasetInfo &info) {
  const job::Dataset::Documents &documents = tokens.documents();
  info.format = "tokens";
  info.trainFiles = tokens.train();
  info.evalFiles = tokens.eval();
  info.params[ASHLAR_RT_WINDOW] = double(tokens.sequence_length());
  info.params[ASHLAR_RT_TOKEN_BYTES] = tokens.type() == job::Dataset::Tokens::U16 ? 2 : tokens.type() == job::Dataset::Tokens::U32 ? 4 : 1;
  info.params[ASHLAR_RT_EVAL_SHARE] = tokens.eval_share();
  info.params[ASHLAR_RT_BOUNDARY] = tokens.has_documents() ? double(documents.boundary()) : -1;
  info.params[ASHLAR_RT_BOUNDARY_BEGINS] = documents.place() == job::Dataset::Documents::BEGIN;
  info.params[ASHLAR_RT_PREDICTS_NEXT] = documents.predict_next();
  info.params[ASHLAR_RT_RESTARTS_POSITIONS] = documents.restart_positions();
}

// Generated text is one document, and so is each file that takes its place.
void setText(const job::Dataset::Text &text, DatasetInfo &info) {
  job::Dataset::Tokens files;
  files.set_train("*.txt");
  files.set_eval_share(0.1);
  files.set_sequence_length(text.sequence_length());
  files.set_type(job::Dataset::Tokens::U8);
  setTokens(files, info);
  info.format = "text";
  info.directoryFormat = "tokens";
  info.trainSamples = text.train_samples();
  info.evalSamples = text.eval_samples();
}

// The middle is taken of an image whose shorter side is 8/7 of the longer side of the part: 256 for 224.
void setImages(const job::Dataset::Images &images, DatasetInfo &info) {
  const int32_t longer = std::max(images.height(), images.width());
  info.format = "images";
  info.params[ASHLAR_RT_IMAGE_HEIGHT] = images.height();
  info.params[ASHLAR_RT_IMAGE_WIDTH] = images.width();
  info.params[ASHLAR_RT_IMAGE_SHORT_SIDE] = images.has_short_side() ? images.short_side() : (8 * int64_t(longer) + 3) / 7;
  // The middle has no random area.
  info.params[ASHLAR_RT_IMAGE_LEAST_AREA] = images.train_crop() == job::Dataset::Images::MIDDLE ? 0 : images.least_area();
}

// Sets the format and its parameters.
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
  case job::Dataset::kTokens:
    setTokens(dataset.tokens(), info);
    break;
  case job::Dataset::kText:
    setText(dataset.text(), info);
    break;
  case job::Dataset::kNpz:
    info.format = "npz";
    info.trainFiles = dataset.npz().has_file() ? dataset.npz().file() : "train.npz";
    info.evalFiles = dataset.npz().has_file() ? dataset.npz().file() : "eval.npz";
    break;
  case job::Dataset::kImages:
    setImages(dataset.images(), info);
    break;
  case job::Dataset::kCsv:
    info.format = "csv";
    info.categories = llvm::join(dataset.csv().categories(), ",");
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

} // namespace

DatasetInfo makeDatasetInfo(const job::Dataset &dataset) {
  DatasetInfo info;
  setSource(dataset, info);
  info.shuffle = dataset.shuffle();
  info.dropRemainder = dataset.drop_remainder();
  info.repeat = dataset.repeat();
  for (const job::Dataset::Feature &feature : dataset.features()) {
    info.features.push_back(makeFeature(feature));
  }
  return info;
}

} // namespace ashlar::driver
