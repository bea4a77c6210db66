// SPDX-License-Identifier: Apache-2.0
//
// The mesh of a job that says only how many devices there are (mesh { devices: 64 }): its axes, the stages of a pipeline, micro-batches and
// what is computed again (docs/search.md).

#ifndef ASHLAR_COMPILER_PLANNING_MESH_SEARCH_H
#define ASHLAR_COMPILER_PLANNING_MESH_SEARCH_H

#include "compiler/planning/job_forecaster.h"
#include "compiler/planning/plan_table.h"
#include "compiler/report/layout_report.h"

#include <vector>

namespace ashlar::driver {

// A job with a mesh, and what a step of it takes.
struct Candidate {
  job::Job job;
  PlannedMesh row;
};

struct FoundMeshes {
  std::vector<Candidate> candidates; // those that fit, the fastest first, then those that do not, then those that cannot be
  size_t left = 0;                   // for which there was no time
};

// Returns the row of a job, as yet without a forecast.
PlannedMesh makeRow(const job::Job &job);

// Returns every list of so many sizes of at least 1 whose product is `devices`; larger first sizes first.
//   8 over 2 axes  ->  {8, 1}, {4, 2}, {2, 4}, {1, 8}
std::vector<std::vector<int64_t>> factorise(int64_t devices, size_t axes);

// Returns the jobs that a job with mesh.devices is made into at first: each way to share the devices among the axes, and each number of
// stages, with as many micro-batches as keep a pipeline busy. The job's own axes have the names; without any they are "outer" and "inner",
// along which devices are neighbours. What the job says of stages, micro-batches and recomputation stays.
//   8 devices, a training job  ->  outer=8,inner=1; 4,2; 2,4; 2 stages of 4,1; 2,2; 4 stages of 2,1; 8 stages of 1,1
std::vector<job::Job> listMeshJobs(const job::Job &job);

// Returns why no candidate can be: the reason of the first.
llvm::Error refuseAll(llvm::ArrayRef<Candidate> candidates);

// Forecasts these jobs, and then the best ones with other micro-batches, with interleaved stages and, where there is a memory limit, with
// values that are computed again, as long as that makes a step faster, or smaller where nothing fits. Takes about so many seconds: no job
// is begun after them, but at least one is forecast.
FoundMeshes searchMeshes(const Options &options, const Input &input, JobForecaster &forecaster, mlir::MLIRContext &context);

// Gives a job with mesh.devices the mesh on which a step is predicted to take the least time, and what else was left open. Returns all that
// was looked at. Fails where the model cannot be imported or trained, where nothing fits the memory limit, and where what was found has
// something against the options.
llvm::Expected<FoundMeshes> chooseMesh(const Options &options, Input &input);

// Returns the meshes that were looked at as a report has them: those that fit `memoryLimit` (bytes; 0: any number), the fastest first.
report::MeshSearchFact describeMeshes(const FoundMeshes &found, int64_t memoryLimit);

} // namespace ashlar::driver

#endif // ASHLAR_COMPILER_PLANNING_MESH_SEARCH_H
