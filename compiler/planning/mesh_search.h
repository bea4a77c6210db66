// SPDX-License-Identifier: Apache-2.0
//
// The mesh of a job that has only the number of devices (mesh { devices: 64 }): its axes, the stages of a pipeline, micro-batches and
// rematerialization (docs/search.md).

#ifndef ASHLAR_COMPILER_PLANNING_MESH_SEARCH_H
#define ASHLAR_COMPILER_PLANNING_MESH_SEARCH_H

#include "compiler/planning/job_forecaster.h"
#include "compiler/planning/plan_table.h"
#include "compiler/report/layout_report.h"

#include <vector>

namespace ashlar::planning {

// A job with a mesh, and the cost of its step.
struct Candidate {
  job::Job job;
  PlannedMesh row;
};

struct FoundMeshes {
  std::vector<Candidate> candidates; // fitting ones, the fastest first, then larger ones, then impossible ones
  size_t left = 0;                   // that were not begun, since the work of the search was done
  bool isStopped = false;            // the clock ended it, or a search for layouts
};

// Returns the row of a job, as yet without a forecast.
PlannedMesh makeRow(const job::Job &job);

// Returns every list of so many sizes of at least 1 whose product is `devices`; larger first sizes first.
//   8 over 2 axes  ->  {8, 1}, {4, 2}, {2, 4}, {1, 8}
std::vector<std::vector<int64_t>> factorise(int64_t devices, size_t axes);

// Returns the first candidates for a job with mesh.devices: each way to share the devices among the axes, and each number of stages, with
// enough micro-batches to keep a pipeline busy. The names are the job's own axes; without any they are "outer" and "inner", along which
// devices are neighbours. The job's stages, micro-batches and recomputation stay.
//   8 devices, a training job  ->  outer=8,inner=1; 4,2; 2,4; 2 stages of 4,1; 2,2; 4 stages of 2,1; 8 stages of 1,1
std::vector<job::Job> listMeshJobs(const job::Job &job);

// Returns why no candidate can be: the reason of the first.
llvm::Error refuseAll(llvm::ArrayRef<Candidate> candidates);

// Forecasts these jobs, and then the best ones with other micro-batches, with interleaved stages and, under a memory limit, with
// rematerialization, as long as that makes a step faster, or smaller where nothing fits. Counts the work of forecasts: no job is begun once
// the effort of a search is over, but at least one is forecast.
FoundMeshes searchMeshes(const command::Options &options, const command::Input &input, JobForecaster &forecaster,
                         mlir::MLIRContext &context);

// Gives a job with mesh.devices the mesh with the least predicted time of a step, and the other open choices. Returns all candidates. Fails
// where the model cannot be imported or trained, where nothing fits the memory limit, and where the result conflicts with the options.
llvm::Expected<FoundMeshes> chooseMesh(const command::Options &options, command::Input &input);

// Returns the candidate meshes for a report: those that fit `memoryLimit` (bytes; 0: any number), the fastest first. `searchSeconds`: the
// safety net of the search.
report::MeshSearchFact describeMeshes(const FoundMeshes &found, int64_t memoryLimit, double searchSeconds);

} // namespace ashlar::planning

#endif // ASHLAR_COMPILER_PLANNING_MESH_SEARCH_H
