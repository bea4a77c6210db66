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
  job::Strategy strategy = {}; // the layouts of the forecast, where they are kept
};

struct FoundMeshes {
  std::vector<Candidate> candidates; // fitting ones, the fastest first, then larger ones, then impossible ones
  size_t left = 0;                   // that were not begun, since the work of the search was done
  size_t estimated = 0;              // jobs, the candidates among them, that were compared by a few of their layers; 0: none
  bool isStopped = false;            // the clock ended it, or a search for layouts
};

// Returns the row of a job, as yet without a forecast.
PlannedMesh makeRow(const job::Job &job);

// Returns why no candidate can be: the reason of the first.
llvm::Error refuseAll(llvm::ArrayRef<Candidate> candidates);

// Forecasts these jobs, and then the best ones with other micro-batches, with interleaved stages and, under a memory limit, with
// rematerialization, as long as that makes a step faster, or smaller where nothing fits. Counts the work of forecasts: no job is begun once
// the effort of a search is over, but at least one is forecast. `keepsLayouts`: with the layouts of each candidate.
FoundMeshes searchMeshes(const command::Options &options, const command::Input &input, JobForecaster &forecaster,
                         mlir::MLIRContext &context, bool keepsLayouts = false);

// Gives a job with mesh.devices the mesh with the least predicted time of a step, and the other open choices, with the layouts of that
// forecast as its strategy: a compilation searches none. Returns all candidates. Fails
// where the model cannot be imported or trained, where nothing fits the memory limit, and where the result conflicts with the options.
llvm::Expected<FoundMeshes> chooseMesh(const command::Options &options, command::Input &input);

// Returns the candidate meshes for a report: those that fit `memoryLimit` (bytes; 0: any number), the fastest first. `searchSeconds`: the
// safety net of the search.
report::MeshSearchFact describeMeshes(const FoundMeshes &found, int64_t memoryLimit, double searchSeconds);

} // namespace ashlar::planning

#endif // ASHLAR_COMPILER_PLANNING_MESH_SEARCH_H
