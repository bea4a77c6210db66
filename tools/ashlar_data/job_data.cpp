// SPDX-License-Identifier: Apache-2.0
//
// The data set of a job, as a run reads it, but for the classes and tables that only the model knows.

#include "compiler/driver/dataset_info.h"
#include "compiler/job/job.h"
#include "runtime/data/formats/token_windows.h"
#include "runtime/data/permutation.h"
#include "runtime/data/transform_chain.h"
#include "tools/ashlar_data/split_facts.h"

#include <algorithm>
#include <numeric>

namespace ashlar::data {

namespace {

// A DatasetInfo in the form of the runtime, which points into it.
struct Description {
  std::vector<std::vector<ashlar_rt_transform>> transforms;
  std::vector<ashlar_rt_feature> features;
  ashlar_rt_dataset dataset = {};

  Description(const target::DatasetInfo &info, std::optional<int64_t> ignored) {
    for (const target::FeatureInfo &feature : info.features) {
      std::vector<ashlar_rt_transform> &chain = transforms.emplace_back();
      for (const target::TransformInfo &transform : feature.transforms) {
        chain.push_back({transform.kind, static_cast<uint32_t>(transform.numbers.size()), transform.numbers.data()});
      }
      // The job's own loss gives targets that do not count their label.
      const uint64_t classes = ignored && feature.column == "targets" ? 1 : 0;
      features.push_back(
          {feature.column.c_str(), feature.tensor.c_str(), static_cast<uint32_t>(chain.size()), nullptr, classes, ignored.value_or(0), 0});
    }
    for (size_t i = 0; i < features.size(); ++i) {
      features[i].transforms = transforms[i].data();
    }
    dataset.format = info.format.c_str();
    dataset.directory_format = info.directoryFormat.empty() ? nullptr : info.directoryFormat.c_str();
    dataset.train_files = info.trainFiles.c_str();
    dataset.eval_files = info.evalFiles.c_str();
    dataset.categories = info.categories.empty() ? nullptr : info.categories.c_str();
    dataset.train_samples = info.trainSamples;
    dataset.eval_samples = info.evalSamples;
    std::copy(info.params.begin(), info.params.end(), dataset.params);
    dataset.num_features = static_cast<uint32_t>(features.size());
    dataset.features = features.data();
  }
  Description(const Description &) = delete;
  Description &operator=(const Description &) = delete;
};

// Reads the column of a feature, and its shape after the transforms.
rt::Status describeFeature(const ashlar_rt_dataset &dataset, const ashlar_rt_feature &feature, rt::Dataset &opened, SplitFacts &facts) {
  const auto found = std::find_if(opened.columns().begin(), opened.columns().end(),
                                  [&](const rt::Column &column) { return column.name == feature.column; });
  if (found == opened.columns().end()) {
    return rt::invalid("the data set has no column \"{}\"; correct the feature", feature.column);
  }
  rt::TransformChain chain;
  ASHLAR_RETURN_IF_ERROR(rt::TransformChain::create(*found, feature.transforms, feature.num_transforms, ASHLAR_RT_F32, chain));
  const std::string format = dataset.format;
  const bool isTokens = format == "tokens" || format == "text";
  const rt::WindowOptions windows = isTokens ? rt::WindowOptions::of(dataset) : rt::WindowOptions();
  const bool ignores = isTokens && found->name == "targets" && windows.boundary >= 0 && !windows.predictsNext;
  const bool hasDocuments = isTokens && found->name == "tokens" && windows.boundary >= 0;
  facts.columns.push_back(readColumn(opened, found - opened.columns().begin(), ignores ? std::optional(windows.ignored) : std::nullopt,
                                     hasDocuments ? std::optional(windows.boundary) : std::nullopt));
  facts.columns.back().tensor = feature.tensor;
  facts.columns.back().transformed = chain.shape();
  return {};
}

rt::Status describeSplit(const ashlar_rt_dataset &dataset, const std::string &directory, const job::Job &job, rt::Split split,
                         SplitFacts &facts) {
  std::unique_ptr<rt::Dataset> opened;
  if (rt::Status status = rt::openDataset(dataset, directory, split, opened); !status.ok()) {
    facts.isMissing = status.code() == rt::StatusCode::kUnavailable;
    return status;
  }
  facts.samples = opened->samples();
  const auto batch = static_cast<uint64_t>(job.global_batch());
  const bool isTrain = split == rt::Split::kTrain;
  facts.stepsOfPass = isTrain ? facts.samples / batch : (facts.samples + batch - 1) / batch;
  std::vector<uint64_t> order(facts.samples);
  std::iota(order.begin(), order.end(), 0);
  if (isTrain && job.dataset().shuffle()) {
    rt::shuffledOrder(job.seed(), /*pass=*/0, order);
  }
  facts.firstBatch.assign(order.begin(), order.begin() + static_cast<int64_t>(std::min(batch, facts.samples)));
  for (uint32_t i = 0; i < dataset.num_features; ++i) {
    ASHLAR_RETURN_IF_ERROR(describeFeature(dataset, dataset.features[i], *opened, facts));
  }
  return opened->check();
}

} // namespace

rt::Status describeJob(const std::string &directory, const std::string &path, std::vector<SplitFacts> &splits) {
  llvm::Expected<job::Job> job = job::parseJob(path);
  if (!job) {
    return rt::invalid("{}", llvm::toString(job.takeError()));
  }
  if (llvm::Error error = job::checkJob(*job, path)) {
    return rt::invalid("{}", llvm::toString(std::move(error)));
  }
  if (!job->has_dataset()) {
    return rt::invalid("{}: the job has no dataset; add dataset {{ ... }}", path);
  }
  const target::DatasetInfo info = driver::makeDatasetInfo(job->dataset());
  const Description description(info, job::ignoredLabel(*job));
  for (const rt::Split split : {rt::Split::kTrain, rt::Split::kEval}) {
    SplitFacts facts;
    facts.format = info.format;
    facts.split = rt::splitName(split);
    const rt::Status status = describeSplit(description.dataset, directory, *job, split, facts);
    facts.fault = status.ok() ? "" : status.message();
    splits.push_back(std::move(facts));
  }
  return {};
}

} // namespace ashlar::data
