// SPDX-License-Identifier: Apache-2.0
//
// Loss, optimizer and dataset, each alone and together.

#include "compiler/job/check_training.h"
#include "compiler/job/check_optimizer.h"
#include "compiler/job/job.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"

using llvm::StringRef;

namespace ashlar::job {

namespace {

Fault needName(bool given, const std::string &value, StringRef field) {
  return given && !value.empty() ? "" : llvm::formatv("field {0} is not given", field).str();
}

Fault checkLoss(const Loss &loss) {
  switch (loss.kind_case()) {
  case Loss::kSoftmaxCrossEntropy: {
    const auto &kind = loss.softmax_cross_entropy();
    Fault fault = needName(kind.has_logits(), kind.logits(), "loss.softmax_cross_entropy.logits");
    return !fault.empty() ? fault : needName(kind.has_labels(), kind.labels(), "loss.softmax_cross_entropy.labels");
  }
  case Loss::kMeanSquaredError: {
    const auto &kind = loss.mean_squared_error();
    Fault fault = needName(kind.has_prediction(), kind.prediction(), "loss.mean_squared_error.prediction");
    return !fault.empty() ? fault : needName(kind.has_target(), kind.target(), "loss.mean_squared_error.target");
  }
  case Loss::kNegativeLogLikelihood: {
    const auto &kind = loss.negative_log_likelihood();
    Fault fault = needName(kind.has_log_probabilities(), kind.log_probabilities(), "loss.negative_log_likelihood.log_probabilities");
    return !fault.empty() ? fault : needName(kind.has_labels(), kind.labels(), "loss.negative_log_likelihood.labels");
  }
  case Loss::kModelOutput:
    return needName(loss.model_output().has_tensor(), loss.model_output().tensor(), "loss.model_output.tensor");
  case Loss::KIND_NOT_SET:
    break;
  }
  return "loss names no kind; one of softmax_cross_entropy, mean_squared_error, negative_log_likelihood, model_output";
}

// The columns a source offers; empty when its files decide.
llvm::SmallVector<StringRef> sourceColumns(const Dataset &dataset) {
  switch (dataset.source_case()) {
  case Dataset::kCifar10:
  case Dataset::kIdx:
  case Dataset::kDigits:
  case Dataset::kImages:
    return {"image", "label"};
  case Dataset::kRegression:
    return {"x", "z"};
  case Dataset::kTokens:
  case Dataset::kText:
    return {"tokens", "targets", "positions", "segments", "mask"};
  default:
    return {};
  }
}

Fault checkSamples(const Job &job, StringRef field, int64_t samples) {
  if (samples < job.global_batch()) {
    return llvm::formatv("{0} {1} is less than global_batch {2}, so there is no full step", field, samples, job.global_batch());
  }
  return {};
}

// Images are cut out of the middle of ones that are at least as large.
Fault checkImages(const Dataset::Images &images) {
  if (!images.has_height() || !images.has_width()) {
    return llvm::formatv("field dataset.images.{0} is not given", images.has_height() ? "width" : "height");
  }
  if (int32_t most = std::max(images.height(), images.width()); images.has_short_side() && images.short_side() < most) {
    return llvm::formatv("dataset.images.short_side {0} is less than {1}, the longer of height and width; raise it", images.short_side(),
                         most);
  }
  return {};
}

// Windows over files of tokens, or over generated text.
Fault checkTokens(const Dataset &dataset) {
  if (dataset.has_text()) {
    return dataset.text().has_sequence_length() ? "" : "field dataset.text.sequence_length is not given";
  }
  const Dataset::Tokens &tokens = dataset.tokens();
  if (!tokens.has_sequence_length()) {
    return "field dataset.tokens.sequence_length is not given";
  }
  if (tokens.has_eval() && tokens.eval_share() > 0) {
    return "dataset.tokens has eval and eval_share, which both make the eval split; leave out one of the two";
  }
  if (tokens.has_documents() && !tokens.documents().has_boundary()) {
    return "field dataset.tokens.documents.boundary is not given";
  }
  for (const std::string *files : {&tokens.train(), &tokens.eval()}) {
    if (files->empty() || files->front() == '/' || files->find("..") != std::string::npos) {
      return llvm::formatv("dataset.tokens names the files \"{0}\"; give a path below --data, without ..", *files);
    }
  }
  return {};
}

Fault checkSource(const Job &job) {
  const Dataset &dataset = job.dataset();
  Fault fault;
  if (dataset.has_tokens() || dataset.has_text()) {
    fault = checkTokens(dataset);
  }
  if (dataset.has_images()) {
    fault = checkImages(dataset.images());
  }
  if (fault.empty() && dataset.has_text()) {
    fault = checkSamples(job, "dataset.text.train_samples", dataset.text().train_samples());
    return !fault.empty() ? fault : checkSamples(job, "dataset.text.eval_samples", dataset.text().eval_samples());
  }
  if (!fault.empty()) {
    return fault;
  }
  if (dataset.has_digits()) {
    fault = checkSamples(job, "dataset.digits.train_samples", dataset.digits().train_samples());
    return !fault.empty() ? fault : checkSamples(job, "dataset.digits.eval_samples", dataset.digits().eval_samples());
  }
  if (dataset.has_regression()) {
    fault = checkSamples(job, "dataset.regression.train_samples", dataset.regression().train_samples());
    return !fault.empty() ? fault : checkSamples(job, "dataset.regression.eval_samples", dataset.regression().eval_samples());
  }
  return dataset.source_case() == Dataset::SOURCE_NOT_SET
             ? "dataset names no source; one of cifar10, csv, digits, idx, images, npy, npz, regression, text, tokens"
             : "";
}

// What is wrong with a transform alone, as the end of a sentence.
Fault checkTransform(const Dataset::Transform &transform) {
  switch (transform.kind_case()) {
  case Dataset::Transform::KIND_NOT_SET:
    return "names no kind; one of rescale, normalize, resize, random_crop, random_horizontal_flip, hwc2chw, type_cast, one_hot";
  case Dataset::Transform::kNormalize: {
    int means = transform.normalize().mean_size(), deviations = transform.normalize().std_size();
    if (means > 1 && deviations > 1 && means != deviations) {
      return llvm::formatv("normalizes with {0} means and {1} stds; give one number, or one a channel, of each", means, deviations);
    }
    return {};
  }
  case Dataset::Transform::kResize:
    return transform.resize().has_height() && transform.resize().has_width() ? "" : "resizes without height or width; give both";
  case Dataset::Transform::kTypeCast:
    return transform.type_cast().has_type() ? "" : "casts to no type; give type_cast a type";
  case Dataset::Transform::kOneHot:
    return transform.one_hot().has_classes() ? "" : "spreads labels over no classes; give one_hot its classes";
  default:
    return {};
  }
}

Fault checkFeature(const Dataset &dataset, const Dataset::Feature &feature) {
  if (feature.column().empty()) {
    return "field dataset.features.column is not given";
  }
  if (feature.tensor().empty()) {
    return llvm::formatv("feature \"{0}\" of the dataset has no tensor", feature.column());
  }
  llvm::SmallVector<StringRef> columns = sourceColumns(dataset);
  if (!columns.empty() && !llvm::is_contained(columns, feature.column())) {
    return llvm::formatv("the dataset has no column \"{0}\"; its columns are \"{1}\"", feature.column(), llvm::join(columns, "\", \""));
  }
  for (const Dataset::Transform &transform : feature.transforms()) {
    if (Fault fault = checkTransform(transform); !fault.empty()) {
      return llvm::formatv("a transform of feature \"{0}\" {1}", feature.column(), fault);
    }
    if (transform.has_hwc2chw() && feature.layout() == Dataset::Feature::NHWC) {
      return llvm::formatv(
          "feature \"{0}\" has layout NHWC and the transform hwc2chw, which move its channels twice; leave out one of the two",
          feature.column());
    }
  }
  return {};
}

Fault checkDataset(const Job &job) {
  const Dataset &dataset = job.dataset();
  if (Fault fault = checkSource(job); !fault.empty()) {
    return fault;
  }
  llvm::StringSet<> tensors;
  for (const Dataset::Feature &feature : dataset.features()) {
    if (Fault fault = checkFeature(dataset, feature); !fault.empty()) {
      return fault;
    }
    if (!tensors.insert(feature.tensor()).second) {
      return llvm::formatv("two features of the dataset feed tensor \"{0}\"", feature.tensor());
    }
  }
  std::string labels = labelsName(job);
  if (!labels.empty() && !tensors.contains(labels)) {
    return llvm::formatv("the loss reads \"{0}\" but no feature of the dataset feeds it; add features {{ column: \"...\" tensor: \"{0}\" }",
                         labels);
  }
  return {};
}

// Loss, optimizer and data make a training job together or not at all.
Fault checkCompleteness(const Job &job) {
  if (job.has_loss()) {
    if (!job.has_optimizer()) {
      return "a job with a loss needs an optimizer; add optimizer { sgd {} learning_rate: 0.01 }";
    }
    return job.has_dataset() ? "" : "a job with a loss needs a dataset; add dataset { digits {} ... }";
  }
  if (job.has_optimizer() || job.has_dataset()) {
    return llvm::formatv("the job has {0} but no loss, so nothing is trained; add a loss",
                         job.has_optimizer() ? "an optimizer" : "a dataset");
  }
  return {};
}

// PER_REPLICA is of replicas with equally many samples.
Fault checkBatchNorm(const Job &job) {
  if (job.has_batch_norm_variance() && !job.has_loss()) {
    return "batch_norm_variance is about training but the job has no loss; leave it out";
  }
  if (job.batch_norm() == BatchNorm::GLOBAL) {
    return {};
  }
  if (!job.has_loss()) {
    return "batch_norm PER_REPLICA is for training but the job has no loss; leave it out";
  }
  if (Mode mode = effectiveMode(job); mode != DATA_PARALLEL) {
    return "batch_norm PER_REPLICA is for mode DATA_PARALLEL, whose devices each hold samples of their own; this job has mode " +
           Mode_Name(mode) + "; leave it out";
  }
  if (int64_t samples = programBatch(job), replicas = batchReplicas(job); samples % replicas != 0) {
    return llvm::formatv("batch_norm PER_REPLICA needs as many samples on each of the {0} devices that split the batch, but {1} is {2}; "
                         "choose a multiple of {0}",
                         replicas, microBatches(job) == 1 ? "global_batch" : "a micro-batch", samples);
  }
  return {};
}

// What the precision gives a meaning to.
Fault checkPrecision(const Job &job) {
  std::string precision = Precision_Name(job.precision());
  if (job.allow_tf32() && job.precision() != F32) {
    return "allow_tf32 rounds the operands of f32 products but with precision " + precision + " there are none; leave out one of the two";
  }
  if (!job.has_loss_scale()) {
    return {};
  }
  if (job.precision() != F16_MIXED || !job.has_loss()) {
    return job.has_loss() ? "loss_scale is for precision F16_MIXED, this job has " + precision + "; leave it out"
                          : "loss_scale is for training but the job has no loss; leave it out";
  }
  return {};
}

// The names of checkpoints are PREFIX-EPOCH_STEP, in one folder; what begins with a dot is unfinished.
Fault checkCheckpoint(const Job &job) {
  const std::string &prefix = job.checkpoint().prefix();
  if (job.has_checkpoint() && !job.has_loss()) {
    return "checkpoint is about training but the job has no loss; leave it out";
  }
  if (prefix.empty() || prefix[0] == '.' || prefix.find('/') != std::string::npos) {
    return llvm::formatv("checkpoint.prefix \"{0}\" begins the names of folders; it needs a character, no slash, and no dot in front",
                         prefix)
        .str();
  }
  return {};
}

} // namespace

Fault checkTraining(const Job &job) {
  if (Fault fault = checkPrecision(job); !fault.empty()) {
    return fault;
  }
  if (Fault fault = checkBatchNorm(job); !fault.empty()) {
    return fault;
  }
  if (job.straight_through() && !job.has_loss()) {
    return "straight_through is about gradients but the job has no loss; leave it out";
  }
  if (job.has_on_nonfinite() && !job.has_loss()) {
    return "on_nonfinite is about training but the job has no loss; leave it out";
  }
  if (Fault fault = checkCheckpoint(job); !fault.empty()) {
    return fault;
  }
  if (Fault fault = checkCompleteness(job); !fault.empty() || !job.has_loss()) {
    return fault;
  }
  if (Fault fault = checkLoss(job.loss()); !fault.empty()) {
    return fault;
  }
  if (Fault fault = checkOptimizer(job.optimizer()); !fault.empty()) {
    return fault;
  }
  return checkDataset(job);
}

} // namespace ashlar::job
