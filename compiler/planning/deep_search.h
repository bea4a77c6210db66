// SPDX-License-Identifier: Apache-2.0
//
// The jobs of a deep model in the order of their estimates: complete jobs, of mesh, stages, micro-batches, schedule, level of optimizer
// parallelism and rematerialization.

#ifndef ASHLAR_COMPILER_PLANNING_DEEP_SEARCH_H
#define ASHLAR_COMPILER_PLANNING_DEEP_SEARCH_H

#include "compiler/planning/job_ranking.h"

#include <vector>

namespace ashlar::planning {

// A job with its estimate.
struct RankedJob {
  job::Job job;
  Estimate estimate;
};

// The models of a search, and what bounds it.
struct DeepSearchContext {
  const command::Options &options;
  const command::Input &input; // with the job as the user gave it
  JobRanking &ranking;
  search::Effort &effort;
  int64_t unitsLeft; // of the effort, for forecasts
  bool mayDivide;    // whether the search gives jobs stages and micro-batches
};

// Returns the jobs that were estimated, the best estimate first: what may fit the memory limit by time, then larger ones by memory.
// Of `jobs`, one for each mesh and number of stages, each is estimated in micro-batches of few samples and in all schedules. A job above
// the limit that would be faster than all that fit is estimated with more optimizer parallelism and with rematerialization: these take no
// less time, so that others need not be. The best meshes are also estimated with other micro-batches and with a larger last axis, while
// that helps. None where no job has an estimate.
std::vector<RankedJob> rankJobs(const DeepSearchContext &context, llvm::ArrayRef<job::Job> jobs);

} // namespace ashlar::planning

#endif // ASHLAR_COMPILER_PLANNING_DEEP_SEARCH_H
