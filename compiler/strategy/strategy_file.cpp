// SPDX-License-Identifier: Apache-2.0
//
// The file of a strategy: a job, in text, with the field `strategy` and, where the mesh was searched, those that the search set.

#include "compiler/job/job.h"
#include "compiler/strategy/strategy.h"

#include <google/protobuf/text_format.h>

namespace ashlar::strategy {

std::string printStrategy(const job::Strategy &strategy, const job::Job &found) {
  job::Job job = found;
  *job.mutable_strategy() = strategy;
  std::string text;
  google::protobuf::TextFormat::PrintToString(job, &text);
  return "# The layout of every tensor, saved by --save-strategy. Take it by --load-strategy, or paste it into the job.\n" + text;
}

job::Job foundFields(const job::Job &job) {
  job::Job found;
  if (job.has_mesh()) {
    *found.mutable_mesh() = job.mesh();
  }
  if (job.has_pipeline()) {
    *found.mutable_pipeline() = job.pipeline();
  }
  if (job.has_accumulate()) {
    found.set_accumulate(job.accumulate());
  }
  if (job.has_optimizer_parallel()) {
    *found.mutable_optimizer_parallel() = job.optimizer_parallel();
  }
  if (job.has_recompute()) {
    found.set_recompute(job.recompute());
  }
  return found;
}

llvm::Expected<job::Job> loadStrategy(llvm::StringRef path) {
  llvm::Expected<job::Job> job = job::parseJob(path);
  if (!job) {
    return job.takeError();
  }
  if (!job->has_strategy()) {
    return llvm::createStringError(path + ": holds no strategy; write one by --save-strategy");
  }
  job::Job known = foundFields(*job);
  *known.mutable_strategy() = job->strategy();
  if (job->ByteSizeLong() != known.ByteSizeLong()) {
    return llvm::createStringError(path + ": holds other fields of a job besides the strategy; give a whole job by --job");
  }
  return job;
}

} // namespace ashlar::strategy
