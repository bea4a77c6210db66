// SPDX-License-Identifier: Apache-2.0
//
// The file of a strategy: a job, in text, of which only the field `strategy` is set.

#include "compiler/job/job.h"
#include "compiler/strategy/strategy.h"

#include <google/protobuf/text_format.h>

namespace ashlar::strategy {

std::string printStrategy(const job::Strategy &strategy) {
  job::Job job;
  *job.mutable_strategy() = strategy;
  std::string text;
  google::protobuf::TextFormat::PrintToString(job, &text);
  return "# The layout of every tensor, saved by --save-strategy. Take it by --load-strategy, or paste it into the job.\n" + text;
}

llvm::Expected<job::Strategy> loadStrategy(llvm::StringRef path) {
  llvm::Expected<job::Job> job = job::parseJob(path);
  if (!job) {
    return job.takeError();
  }
  job::Strategy strategy = job->strategy();
  if (!job->has_strategy()) {
    return llvm::createStringError(path + ": holds no strategy; write one by --save-strategy");
  }
  job->clear_strategy();
  if (job->ByteSizeLong() != 0) {
    return llvm::createStringError(path + ": holds other fields of a job beside the strategy; give a whole job by --job");
  }
  return strategy;
}

} // namespace ashlar::strategy
