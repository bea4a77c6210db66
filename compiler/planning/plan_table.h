// SPDX-License-Identifier: Apache-2.0
//
// The table of ashlarc plan, as text and as JSON.

#ifndef ASHLAR_COMPILER_PLANNING_PLAN_TABLE_H
#define ASHLAR_COMPILER_PLANNING_PLAN_TABLE_H

#include "compiler/planning/forecast.h"

#include <string>
#include <vector>

namespace ashlar::planning {

// A mesh, and the cost of a step on it or why it is impossible.
struct PlannedMesh {
  std::vector<pipelines::Axis> axes;
  int64_t devices = 1;      // of all stages
  int64_t stages = 1;       // of a pipeline; 1: none
  int64_t microBatches = 1; // that a step is computed in
  std::string schedule;     // of a pipeline, as the job names it; "": an order of its own
  int64_t level = 0;        // of optimizer parallelism; 0: none
  bool recomputes = false;  // until the step fits the memory
  std::optional<Forecast> forecast;
  std::string refusal;
};

// Returns a mesh in words: "outer=8,inner=2, 4 stages INTERLEAVED, 16 micro-batches, level 1, recompute AUTO".
std::string meshName(const PlannedMesh &mesh);

struct PlanTable {
  std::string model, target;
  int64_t memoryLimit = 0;                   // of a device; 0: none
  std::vector<PlannedMesh> meshes;           // in the order in which they are shown
  size_t left = 0;                           // that a search did not begin, since its work was done
  size_t estimated = 0;                      // of which these are the best (FoundMeshes); 0: none
  std::optional<double> stoppedSeconds = {}; // after which the clock ended a search

  // Returns whether a mesh can be, and its devices have the memory for it.
  bool fits(const PlannedMesh &mesh) const {
    return mesh.forecast && (memoryLimit == 0 || mesh.forecast->leastBytes <= static_cast<uint64_t>(memoryLimit));
  }

  // Orders the meshes: fitting ones, the fastest first, then larger ones, then impossible ones.
  void sort();
};

// Returns the table as text, and as JSON.
std::string planTableText(const PlanTable &table);
std::string planTableJson(const PlanTable &table);

} // namespace ashlar::planning

#endif // ASHLAR_COMPILER_PLANNING_PLAN_TABLE_H
